#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/data/formats/tree.h"

namespace distbelief::data {

// The trees of text files: a line "LABEL EXPRESSION" for each, LABEL from 0 on, in train.sexp and test.sexp
// of config.path. Tokens and the number of nodes and classes are those of the training file. Throws
// Error(kBadInput) with file and line.
DataSet open_s_expressions(const DataConfig& config, const OptionMap& options);
// The same with tokens, nodes and classes that were learnt before.
struct KnownSet;
DataSet reopen_s_expressions(const DataConfig& config, const OptionMap& options, const KnownSet& known);

// The numbers that a run's data set gives to names of nodes: of s_expressions the training file is read;
// empty for a set that has no trees, or whose names are not kept.
TreeTokens tree_tokens(const DataConfig& config);

// The trees of a file of expressions, a line each, with or without labels; `line` counts from 1. Throws
// Error(kBadInput) with file and line.
struct AskedTree {
  std::vector<TreeNode> tree;
  std::int64_t line = 0;
};
std::vector<AskedTree> read_asked_trees(const std::string& file);

}  // namespace distbelief::data
