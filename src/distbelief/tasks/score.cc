#include "distbelief/tasks/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "distbelief/base/random.h"

namespace distbelief::tasks {
namespace {

constexpr std::size_t kPerClass = 3;  // correct answers, answers, targets

// Mean of `value` over the classes that occur.
template <typename Value>
double mean_over_classes(std::span<const double> counts, Value value) {
  double sum = 0, classes = 0;
  for (std::size_t i = 0; i + kPerClass <= counts.size(); i += kPerClass) {
    const double right = counts[i], given = counts[i + 1], true_ones = counts[i + 2];
    if (given + true_ones == 0) continue;
    sum += value(right, given, true_ones);
    classes += 1;
  }
  return classes > 0 ? sum / classes : 0;
}

double squared_distance(const double* a, const double* b, std::size_t width) {
  double sum = 0;
  for (std::size_t i = 0; i < width; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

class KMeans {
 public:
  KMeans(std::span<const double> points, const KMeansOptions& options)
      : points_(points),
        options_(options),
        rows_(points.size() / options.width),
        groups_(rows_, -1) {}

  Clusters run() {
    if (rows_ > 0) choose_centres();
    for (int round = 0; round < options_.rounds && assign(); ++round) move_centres();
    return {std::move(groups_), std::move(centres_)};
  }

 private:
  const double* row(std::size_t i) const { return points_.data() + i * options_.width; }
  void add_centre(std::size_t i) { centres_.insert(centres_.end(), row(i), row(i) + options_.width); }
  std::size_t centre_count() const { return centres_.size() / options_.width; }

  // Arthur and Vassilvitskii, "k-means++", 2007.
  void choose_centres() {
    SplitMix64 random(derive_seed({options_.seed, 0x6b6d65616e}));
    add_centre(random.below(rows_));
    std::vector<double> nearest(rows_, std::numeric_limits<double>::infinity());
    while (centre_count() < std::min(options_.groups, rows_)) {
      double sum = 0;
      const double* last = centres_.data() + centres_.size() - options_.width;
      for (std::size_t i = 0; i < rows_; ++i)
        sum += nearest[i] = std::min(nearest[i], squared_distance(row(i), last, options_.width));
      double left = random.uniform() * sum;
      std::size_t chosen = 0;
      while (chosen + 1 < rows_ && left >= nearest[chosen]) left -= nearest[chosen++];
      add_centre(chosen);
    }
  }

  // Returns whether any row changed its group.
  bool assign() {
    bool changed = false;
    for (std::size_t i = 0; i < rows_; ++i) {
      const int best = nearest_centre({row(i), options_.width}, centres_);
      changed = changed || groups_[i] != best;
      groups_[i] = best;
    }
    return changed;
  }

  // A centre without rows does not move.
  void move_centres() {
    std::vector<double> sums(centres_.size()), counts(centre_count());
    for (std::size_t i = 0; i < rows_; ++i) {
      const auto group = std::size_t(groups_[i]);
      counts[group] += 1;
      for (std::size_t d = 0; d < options_.width; ++d) sums[group * options_.width + d] += row(i)[d];
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (const double count = counts[i / options_.width]; count > 0) centres_[i] = sums[i] / count;
  }

  std::span<const double> points_;
  KMeansOptions options_;
  std::size_t rows_;
  std::vector<int> groups_;
  std::vector<double> centres_;
};

}  // namespace

const double* find_metric(std::span<const Metric> metrics, const std::string& name) {
  for (const Metric& metric : metrics)
    if (metric.name == name) return &metric.value;
  return nullptr;
}

bool is_as_good(const std::string& metric, double value, double wanted) {
  for (const char* low :
       {kLossMetric, "perplexity", "rmse", "mae", "label_error", "latency_share", "moment_distance"})
    if (metric == low) return value <= wanted;
  return value >= wanted;
}

double macro_f1(std::span<const double> counts) {
  return mean_over_classes(
      counts, [](double right, double given, double true_ones) { return 2 * right / (given + true_ones); });
}

double mean_iou(std::span<const double> counts) {
  return mean_over_classes(counts, [](double right, double given, double true_ones) {
    return right / (given + true_ones - right);
  });
}

// Computes the bin from exponent and leading digits of |logit| + 1, without functions whose last bits differ
// between machines.
std::size_t score_bin(double logit) {
  constexpr std::size_t kHalf = kScoreBins / 2, kPerOctave = 8192;
  if (std::isnan(logit)) return 0;
  int octave = 0;  // exponent of a fraction in [0.5, 1)
  const double fraction = std::frexp(std::min(std::abs(logit), 1e6) + 1, &octave);
  const auto within = std::size_t((2 * fraction - 1) * double(kPerOctave));
  const std::size_t bin = std::min(kHalf - 1, std::size_t(octave - 1) * kPerOctave + within);
  return logit < 0 ? kHalf - 1 - bin : kHalf + bin;
}

double auc(std::span<const double> counts) {
  double below = 0, pairs = 0, negatives = 0, positives = 0;
  for (std::size_t bin = 0; bin < kScoreBins; ++bin) {
    const double negative = counts[bin], positive = counts[kScoreBins + bin];
    pairs += positive * (below + negative / 2);
    below += negative;
    negatives += negative;
    positives += positive;
  }
  return negatives > 0 && positives > 0 ? pairs / (negatives * positives) : 0.5;
}

double purity(std::span<const int> groups, std::span<const int> classes) {
  std::map<int, std::map<int, std::size_t>> found;
  for (std::size_t i = 0; i < groups.size(); ++i) ++found[groups[i]][classes[i]];
  std::size_t right = 0;
  for (const auto& [group, counts] : found) {
    std::size_t most = 0;
    for (const auto& [name, count] : counts) most = std::max(most, count);
    right += most;
  }
  return groups.empty() ? 0 : double(right) / double(groups.size());
}

Clusters k_means(std::span<const double> points, const KMeansOptions& options) {
  return KMeans(points, options).run();
}

int nearest_centre(std::span<const double> point, std::span<const double> centres) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; (c + 1) * point.size() <= centres.size(); ++c) {
    const double distance = squared_distance(point.data(), centres.data() + c * point.size(), point.size());
    if (distance < least) best = int(c);
    least = std::min(least, distance);
  }
  return best;
}

}  // namespace distbelief::tasks
