#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// What validation counts, and the metrics that come of it. Pure functions of numbers; no tensors.
namespace distbelief::tasks {

// Most samples that are scored at a time; fixed, because it decides the order of additions.
inline constexpr std::uint64_t kEvaluationChunk = 64;

// What a task finds on one chunk of test samples.
struct Score {
  std::vector<double> sums;    // [0] is the loss; kept apart by chunk and added in the order of chunks
  std::vector<double> counts;  // whole numbers, which add up exactly in any order
  // Further ones, where most are 0: which of all counts are one more, those after `counts` among them.
  std::vector<std::size_t> ones{};
};
struct ScoreShape {
  std::size_t sums = 1;
  std::size_t counts = 0;
  std::optional<std::size_t> items{};  // which count has the items; none: all samples have as many
};

// The scores of all chunks, the same on every worker.
struct Tally {
  std::vector<std::vector<double>> chunks;  // the sums of each
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
// Null when there is none of that name.
const double* find_metric(std::span<const Metric> metrics, const std::string& name);
inline constexpr const char* kLossMetric = "loss";  // what validations have of every task, beside its metrics
// Whether the metric of that name is as good as wanted: of some a lower value is the better one.
bool is_as_good(const std::string& metric, double value, double wanted);

// Mean over the classes that occur, in truth or in answers, of 2 tp / (2 tp + fp + fn). `counts` holds for
// each class: right answers, answers, true ones.
double macro_f1(std::span<const double> counts);
// Mean over the classes that occur of the share that right answers have in answers and true ones together.
double mean_iou(std::span<const double> counts);

// The area under the curve of true against false positives, from histograms of a score: first the bins of the
// negative samples, then those of the positive ones. Samples of one bin count as ties, half right.
//
// The score is a logit, ln(p / (1 - p)), so that rare classes, all of whose probabilities are near 0, are
// told apart. A bin is at most (|logit| + 1) / 8192 wide; beyond 255 and -255 all are alike.
inline constexpr std::size_t kScoreBins = 1 << 17;
std::size_t score_bin(double logit);
double auc(std::span<const double> counts);

// How well groups agree with classes when each group stands for its most frequent class: the share of
// samples whose class is their group's. `groups` and `classes` are 0 and up.
double purity(std::span<const int> groups, std::span<const int> classes);

// Lloyd's k-means on `points` rows of `width` numbers; gives each row's group and the groups' centres. The
// first centres are chosen by k-means++ with randomness of `seed`; the same rows give the same groups on
// every machine with the same rounding.
struct KMeansOptions {
  std::size_t width = 1;
  std::size_t groups = 2;
  int rounds = 50;  // at most
  std::uint64_t seed = 1;
};
struct Clusters {
  std::vector<int> groups;      // of each row
  std::vector<double> centres;  // rows of `width` numbers; no more than there are rows of points
};
Clusters k_means(std::span<const double> points, const KMeansOptions& options);
// The row of `centres` that is nearest to a point, which has the width of all; the first of several.
int nearest_centre(std::span<const double> point, std::span<const double> centres);

}  // namespace distbelief::tasks
