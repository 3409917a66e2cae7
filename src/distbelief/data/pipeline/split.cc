#include "distbelief/data/pipeline/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/data/formats/table.h"
#include "distbelief/data/pipeline/sampling.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kSplitStream = 0x73706c6974;  // separates these keys from other uses of the seed
constexpr double kLeastAlpha = 1e-3;  // then each class has one owner; far below it, logarithms overflow
using Samples = std::vector<std::uint64_t>;

[[noreturn]] void refuse_split(const std::string& text) {
  throw Error(
      ErrorCode::kBadInput,
      fmt::format(
          "a split is even, stratified, label:CLASSES, dirichlet:ALPHA or feature:NUMBER, with "
          "positive numbers (ALPHA from {}; a feature's from 0; of a table feature:COLUMN); found '{}'",
          kLeastAlpha, text));
}

template <typename Number>
Number number_after(const std::string& text, std::size_t at) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data() + at, end, value);
  if (failure != std::errc{} || stopped != end) refuse_split(text);
  return value;
}

// The index of the input element for a numeric column; nothing when no input has this name.
std::optional<std::uint64_t> feature_of(const TableSchema& table, std::string_view name) {
  for (const std::size_t input : table.inputs) {
    const TableColumn& column = table.columns[input];
    if (column.name != name) continue;
    if (column.role == ColumnRole::kNumeric) return std::uint64_t(column.first_feature);
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("column '{}' has categories, and ranges are of numbers; name a column of numbers", name));
  }
  if (!name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos) return std::nullopt;
  std::vector<std::string> names;
  for (const std::size_t input : table.inputs)
    if (table.columns[input].role == ColumnRole::kNumeric) names.push_back(table.columns[input].name);
  throw Error(ErrorCode::kBadInput,
              fmt::format("no column of numbers that is learnt from is called '{}'; there are {}", name,
                          fmt::join(names, ", ")));
}

Samples shuffled(const Samples& samples, std::uint64_t seed, std::uint64_t stream) {
  const Permutation order(samples.size(), derive_seed({seed, kSplitStream}), stream);
  Samples result(samples.size());
  for (std::uint64_t i = 0; i < samples.size(); ++i) result[i] = samples[order(i)];
  return result;
}

std::vector<Samples> by_class(const SplitColumns& columns, std::uint64_t seed) {
  std::vector<Samples> samples(static_cast<std::size_t>(columns.classes));
  for (std::uint64_t i = 0; i < columns.samples; ++i)
    samples[static_cast<std::size_t>(columns.labels[i])].push_back(i);
  for (std::size_t label = 0; label < samples.size(); ++label)
    samples[label] = shuffled(samples[label], seed, label + 1);
  return samples;
}

Samples all_samples(std::uint64_t count) {
  Samples samples(count);
  std::iota(samples.begin(), samples.end(), std::uint64_t{0});
  return samples;
}

// Cuts into consecutive ranges whose lengths differ by at most one.
void cut_evenly(const Samples& samples, Split& split) {
  const EpochPlan plan{samples.size(), std::max<std::uint64_t>(1, samples.size()), split.size()};
  if (samples.empty()) return;
  for (std::uint64_t client = 0; client < split.size(); ++client) {
    const Range own = plan.lane_range(0, client);
    split[client].insert(split[client].end(), samples.begin() + std::ptrdiff_t(own.begin),
                         samples.begin() + std::ptrdiff_t(own.end));
  }
}

// Deals samples like cards and continues with the next client in the next class: clients differ by at most
// one sample, in every class and in total.
void deal(const std::vector<Samples>& classes, Split& split) {
  std::size_t next = 0;
  for (const Samples& samples : classes)
    for (const std::uint64_t sample : samples) split[next++ % split.size()].push_back(sample);
}

void split_by_label(const SplitRule& rule, const std::vector<Samples>& classes, std::uint64_t seed,
                    Split& split) {
  const auto each = static_cast<std::uint64_t>(rule.classes_each);
  const std::uint64_t places = each * split.size();
  if (each > classes.size() || places < classes.size())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} clients with {} classes each cannot share out {} classes: each class needs a client, "
                    "and a client has each class once; change label:{} or the number of clients",
                    split.size(), each, classes.size(), each));
  // Places cycle through the classes, so each client gets different classes.
  const Permutation label_order(classes.size(), derive_seed({seed, kSplitStream}), 0);
  const Permutation client_order(split.size(), derive_seed({seed, kSplitStream, 1}), 0);
  std::vector<std::vector<std::size_t>> holders(classes.size());
  for (std::uint64_t place = 0; place < places; ++place)
    holders[label_order(place % classes.size())].push_back(client_order(place / each));
  for (std::size_t label = 0; label < classes.size(); ++label)
    for (std::size_t i = 0; i < classes[label].size(); ++i)
      split[holders[label][i % holders[label].size()]].push_back(classes[label][i]);
}

double normal(SplitMix64& random) {  // Box-Muller transform
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random.uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * random.uniform());
}

// The logarithm of a draw from Gamma(alpha), because the draw itself underflows to 0 for small alpha.
// Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000.
double log_gamma_draw(double alpha, SplitMix64& random) {
  if (alpha < 1.0) return log_gamma_draw(alpha + 1.0, random) + std::log(1.0 - random.uniform()) / alpha;
  const double d = alpha - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal(random);
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0.0) continue;
    if (std::log(1.0 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d) + std::log(v);
  }
}

std::vector<double> dirichlet_draw(double alpha, std::size_t count, SplitMix64& random) {
  std::vector<double> shares(count);
  for (double& share : shares) share = log_gamma_draw(alpha, random);
  const double largest = *std::max_element(shares.begin(), shares.end());
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

void split_by_dirichlet(const SplitRule& rule, const std::vector<Samples>& classes, std::uint64_t seed,
                        Split& split) {
  for (std::size_t label = 0; label < classes.size(); ++label) {
    SplitMix64 random(derive_seed({seed, kSplitStream, 2, label}));
    const std::vector<double> shares = dirichlet_draw(rule.alpha, split.size(), random);
    const Samples& samples = classes[label];
    double reached = 0;
    std::size_t at = 0;
    for (std::size_t client = 0; client < split.size(); ++client) {
      reached += shares[client];
      const bool last = client + 1 == split.size();  // a rounded sum of doubles may miss 1
      const auto end =
          last ? samples.size()
               : std::clamp<std::size_t>(std::size_t(std::llround(reached * double(samples.size()))), at,
                                         samples.size());
      for (; at < end; ++at) split[client].push_back(samples[at]);
    }
  }
}

void split_by_feature(const SplitColumns& columns, Split& split) {
  Samples samples = all_samples(columns.samples);
  const auto key = [&](std::uint64_t i) {  // NaN sorts last
    const double value = columns.values[i];
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
  };
  std::stable_sort(samples.begin(), samples.end(),
                   [&](std::uint64_t a, std::uint64_t b) { return key(a) < key(b); });
  cut_evenly(samples, split);
}

double number_at(ElementType type, const void* element) {
  switch (type) {
    case ElementType::kUint8: return *static_cast<const std::uint8_t*>(element);
    case ElementType::kInt64: return static_cast<double>(*static_cast<const std::int64_t*>(element));
    case ElementType::kFloat32: return *static_cast<const float*>(element);
    case ElementType::kFloat64: return *static_cast<const double*>(element);
  }
  return 0;
}

}  // namespace

SplitRule parse_split(const std::string& text, const TableSchema* table) {
  SplitRule rule;
  if (text == "even") return rule;
  rule.kind = SplitKind::kStratified;
  if (text == "stratified") return rule;
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (colon == std::string::npos) refuse_split(text);
  if (name == "label") {
    rule.kind = SplitKind::kLabel;
    rule.classes_each = number_after<std::int64_t>(text, colon + 1);
  } else if (name == "dirichlet") {
    rule.kind = SplitKind::kDirichlet;
    rule.alpha = number_after<double>(text, colon + 1);
  } else if (name == "feature") {
    rule.kind = SplitKind::kFeature;
    const auto named =
        table != nullptr ? feature_of(*table, std::string_view(text).substr(colon + 1)) : std::nullopt;
    rule.feature = named ? *named : number_after<std::uint64_t>(text, colon + 1);
  } else {
    refuse_split(text);
  }
  if (rule.classes_each < 1 || !(rule.alpha >= kLeastAlpha) || !std::isfinite(rule.alpha)) refuse_split(text);
  return rule;
}

SplitColumns read_split_columns(const Source& source, const SplitRule& rule) {
  const SampleSpec& spec = source.spec();
  const bool labelled =
      spec.classes > 0 && spec.target_shape.empty() && spec.target_type == ElementType::kInt64;
  const bool by_feature = rule.kind == SplitKind::kFeature;
  if (!labelled && !by_feature && rule.kind != SplitKind::kEven)
    throw Error(ErrorCode::kBadInput,
                "this data set has not one class per sample; split it by even or feature:NUMBER");
  if (by_feature && rule.feature >= static_cast<std::uint64_t>(element_count(spec.input_shape)))
    throw Error(ErrorCode::kBadInput, fmt::format("there is no feature {}: a sample has {}", rule.feature,
                                                  element_count(spec.input_shape)));
  SplitColumns columns{
      .samples = source.size(), .classes = labelled ? spec.classes : 0, .labels = {}, .values = {}};
  if (!labelled && !by_feature) return columns;
  std::vector<std::int64_t> target(sample_bytes(spec).target / sizeof(std::int64_t) + 1);
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    alignas(std::int64_t) std::array<std::byte, sizeof(std::int64_t)> element{};
    source.read_columns(i, rule.feature, by_feature ? 1 : 0, element.data(), target.data());
    if (labelled && !is_class(spec, target[0]))
      throw Error(ErrorCode::kBadInput, fmt::format("sample {} has class {}, outside 0 to {}; mend the data",
                                                    i, target[0], spec.classes - 1));
    if (labelled) columns.labels.push_back(target[0]);
    if (by_feature) columns.values.push_back(number_at(spec.input_type, element.data()));
  }
  return columns;
}

Split split_samples(const SplitRule& rule, const SplitColumns& columns, std::int64_t clients,
                    std::uint64_t seed) {
  if (clients < 1)
    throw Error(ErrorCode::kBadInput, fmt::format("there must be 1 client or more, not {}", clients));
  Split split(static_cast<std::size_t>(clients));
  switch (rule.kind) {
    case SplitKind::kEven: cut_evenly(shuffled(all_samples(columns.samples), seed, 0), split); break;
    case SplitKind::kStratified: deal(by_class(columns, seed), split); break;
    case SplitKind::kLabel: split_by_label(rule, by_class(columns, seed), seed, split); break;
    case SplitKind::kDirichlet: split_by_dirichlet(rule, by_class(columns, seed), seed, split); break;
    case SplitKind::kFeature: split_by_feature(columns, split); break;
  }
  for (auto& samples : split) std::sort(samples.begin(), samples.end());
  return split;
}

}  // namespace distbelief::data
