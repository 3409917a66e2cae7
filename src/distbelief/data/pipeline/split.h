#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distbelief/data/source.h"

// Distributes samples over workers or clients with local data. Pure functions: the same rule, columns and
// seed give the same split everywhere; each sample belongs to exactly one client.
namespace distbelief::data {

struct TableSchema;

enum class SplitKind {
  kEven,        // at random, in equal numbers
  kStratified,  // at random, in equal numbers of every class
  kLabel,       // few classes per client
  kDirichlet,   // shares of each class drawn from Dirichlet(alpha); smaller alpha is less even
  kFeature,     // ranges of one feature, with equally many samples
};

struct SplitRule {
  SplitKind kind = SplitKind::kEven;
  std::int64_t classes_each = 2;  // kLabel
  double alpha = 0.5;             // kDirichlet
  std::uint64_t feature = 0;      // kFeature: index of the input element
};

// Parses "even", "stratified", "label:2", "dirichlet:0.3", "feature:17"; for a table also "feature:age", the
// name of a numeric column, which takes precedence over a number. Throws Error(kBadInput) for anything else.
SplitRule parse_split(const std::string& text, const TableSchema* table = nullptr);

// The data that a rule uses: one entry per sample.
struct SplitColumns {
  std::uint64_t samples = 0;
  std::int64_t classes = 0;
  std::vector<std::int64_t> labels;  // in [0, classes); needed by all but kEven and kFeature
  std::vector<double> values;        // needed by kFeature
};

// Reads the columns that the rule needs, and the labels if the source has any. Throws Error(kBadInput) when
// the source lacks a needed column.
SplitColumns read_split_columns(const Source& source, const SplitRule& rule);

// Returns the samples of each client in ascending order. Throws Error(kBadInput) when the rule cannot be
// satisfied: no clients, or too few for every class to have one.
using Split = std::vector<std::vector<std::uint64_t>>;
Split split_samples(const SplitRule& rule, const SplitColumns& columns, std::int64_t clients,
                    std::uint64_t seed);

}  // namespace distbelief::data
