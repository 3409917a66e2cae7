#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The sums and counts of validation, and the metrics computed from them. Pure functions of numbers; no
// tensors.
namespace distbelief::tasks {

// The largest number of samples scored at a time. It is fixed, because it determines the order of additions.
inline constexpr std::uint64_t kEvaluationChunk = 64;

// A task's result on one chunk of test samples.
struct Score {
  std::vector<double> sums;    // [0] is the loss; kept per chunk and added in the order of chunks
  std::vector<double> counts;  // whole numbers, so that sums are exact in any order
  // Sparse counts, which follow `counts`: the indices (over all counts) to increase by one.
  std::vector<std::size_t> ones{};
};
struct ScoreShape {
  std::size_t sums = 1;
  std::size_t counts = 0;
  std::optional<std::size_t> items{};  // index of the count of items; empty: all samples have equally many
};

// The scores of all chunks; the same on every worker.
struct Tally {
  std::vector<std::vector<double>> chunks;  // the sums of each chunk
  std::vector<double> sums;                 // over all chunks
  std::vector<double> counts;
  std::int64_t items = 0;
  double mean(std::size_t sum) const { return items > 0 ? sums[sum] / double(items) : 0; }
};

struct Metric {
  std::string name;
  double value = 0;
  bool operator==(const Metric&) const = default;
};
// Null if there is no metric of that name.
const double* find_metric(std::span<const Metric> metrics, const std::string& name);
inline constexpr const char* kLossMetric = "loss";  // available for every task, besides its metrics
// Whether the metric reaches the wanted value; for some metrics lower is better.
bool is_as_good(const std::string& metric, double value, double wanted);

// Mean of 2 tp / (2 tp + fp + fn) over the classes that occur in the targets or the answers. `counts` holds
// per class: correct answers, answers, targets.
double macro_f1(std::span<const double> counts);
// Mean intersection over union of answers and targets, over the classes that occur. `counts` as in
// macro_f1().
double mean_iou(std::span<const double> counts);

// The area under the ROC curve, from histograms of a score: first the bins of the negative samples, then
// those of the positive ones. Samples in the same bin count as ties (one half).
//
// The score is a logit, ln(p / (1 - p)), so that rare classes with probabilities near 0 stay distinguishable.
// A bin is at most (|logit| + 1) / 8192 wide; all scores beyond 255 or -255 share a bin.
inline constexpr std::size_t kScoreBins = 1 << 17;
std::size_t score_bin(double logit);
double auc(std::span<const double> counts);

// The share of samples whose class is the most frequent class of their group. `groups` and `classes` are 0
// and up.
double purity(std::span<const int> groups, std::span<const int> classes);

// Lloyd's k-means on `points`, rows of `width` numbers. Returns each row's group and the centres of the
// groups. k-means++ with `seed` chooses the first centres. The same rows give the same groups on every
// machine with the same rounding.
struct KMeansOptions {
  std::size_t width = 1;
  std::size_t groups = 2;
  int rounds = 50;  // at most
  std::uint64_t seed = 1;
};
struct Clusters {
  std::vector<int> groups;      // per row
  std::vector<double> centres;  // rows of `width` numbers; at most as many as rows of points
};
Clusters k_means(std::span<const double> points, const KMeansOptions& options);
// The index of the centre nearest to a point; ties go to the first. The point and all centres have the same
// width.
int nearest_centre(std::span<const double> point, std::span<const double> centres);

}  // namespace distbelief::tasks
