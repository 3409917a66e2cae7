#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/data/formats/tree.h"

namespace distbelief::data {

// Opens train.sexp and test.sexp in config.path: one line "LABEL EXPRESSION" per tree, labels from 0. The
// training file defines the tokens, the number of nodes and the number of classes. Throws Error(kBadInput)
// with file and line.
DataSet open_s_expressions(const DataConfig& config, const OptionMap& options);
// Opens the same files with the tokens, nodes and classes of a data manifest.
struct KnownSet;
DataSet reopen_s_expressions(const DataConfig& config, const OptionMap& options, const KnownSet& known);

// The token of each node name in a run's data set. Reads the training file when the set is s_expressions.
// Empty for a set without trees and for one that does not keep the names.
TreeTokens tree_tokens(const DataConfig& config);

// Reads the trees of a file, one expression per line, with or without labels; `line` counts from 1. Throws
// Error(kBadInput) with file and line.
struct AskedTree {
  std::vector<TreeNode> tree;
  std::int64_t line = 0;
};
std::vector<AskedTree> read_asked_trees(const std::string& file);

}  // namespace distbelief::data
