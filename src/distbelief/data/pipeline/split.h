#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distbelief/data/source.h"

// How samples are shared out between workers or clients that keep their own. Pure functions: the same rule,
// columns and seed give the same split everywhere; each sample goes to exactly one client.
namespace distbelief::data {

struct TableSchema;

enum class SplitKind {
  kEven,        // at random, as many for each
  kStratified,  // the same, of every class
  kLabel,       // few classes each
  kDirichlet,   // shares of each class drawn from Dirichlet(alpha): the smaller, the more uneven
  kFeature,     // ranges of one feature, as many samples in each
};

struct SplitRule {
  SplitKind kind = SplitKind::kEven;
  std::int64_t classes_each = 2;  // kLabel
  double alpha = 0.5;             // kDirichlet
  std::uint64_t feature = 0;      // kFeature: which element of the input
};

// "even", "stratified", "label:2", "dirichlet:0.3", "feature:17"; of samples that are rows of a table also
// "feature:age", a column of numbers by its name, which goes before a number. Throws Error(kBadInput) for
// anything else.
SplitRule parse_split(const std::string& text, const TableSchema* table = nullptr);

// What a rule looks at: one entry per sample.
struct SplitColumns {
  std::uint64_t samples = 0;
  std::int64_t classes = 0;
  std::vector<std::int64_t> labels;  // in [0, classes); needed by all but kEven and kFeature
  std::vector<double> values;        // needed by kFeature
};

// Reads what the rule needs, and labels where there are any. Throws Error(kBadInput) when the source has not
// what the rule needs.
SplitColumns read_split_columns(const Source& source, const SplitRule& rule);

// For each client its samples, in ascending order. Throws Error(kBadInput) when the rule cannot be kept: no
// client, or too few for each class to have one.
using Split = std::vector<std::vector<std::uint64_t>>;
Split split_samples(const SplitRule& rule, const SplitColumns& columns, std::int64_t clients,
                    std::uint64_t seed);

}  // namespace distbelief::data
