#include "distbelief/data/formats/s_expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/base/text_lines.h"
#include "distbelief/data/known_set.h"

namespace distbelief::data {
namespace {

constexpr std::int64_t kMostLabels = 4096;
// A tree takes up to 20 times the memory of its text.
constexpr TextLines::Limits kTreeLimits{.line_bytes = 1 << 20, .file_bytes = 64 << 20};

struct LabelledTree {
  std::vector<TreeNode> tree;
  std::int64_t label = 0;
  std::int64_t line = 0;  // from 1 on
};

// How trees become numbers, as fitted on the training trees.
struct TreeReading {
  std::shared_ptr<const Learnt> learnt;  // the tokens
  std::int64_t nodes = 1;
  std::int64_t labels = 2;
};

// Calls `take` for each line that is not blank; adds file and line to the errors that it throws.
void for_each_line(const std::string& file, const char* advice,
                   const std::function<void(std::string_view line, std::int64_t number)>& take) {
  TextLines lines(file, kTreeLimits);
  if (!lines.is_open())
    throw Error(ErrorCode::kUnavailable, fmt::format("{} cannot be read{}", file, advice));
  while (lines.next()) {
    if (lines.line().find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      take(lines.line(), lines.number());
    } catch (const Error& error) {
      throw lines.fault(error.message());
    }
  }
}

// The label at the beginning of a line and the text after it; the whole line in `rest` when there is no
// label.
struct SplitLine {
  std::optional<std::int64_t> label{};
  std::string_view rest;
};
SplitLine split_label(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  std::int64_t label = 0;
  const char* const end = line.data() + line.size();
  const auto [after, fault] = std::from_chars(line.data() + begin, end, label);
  const bool ends = after == end || *after == ' ' || *after == '\t' || *after == '(';
  if (fault != std::errc() || !ends) return {.rest = line};
  return {.label = label, .rest = line.substr(std::size_t(after - line.data()))};
}

std::vector<LabelledTree> read_trees(const std::string& file) {
  std::vector<LabelledTree> trees;
  for_each_line(file, "; data.path must be a folder with train.sexp and test.sexp",
                [&](std::string_view line, std::int64_t number) {
                  const SplitLine parts = split_label(line);
                  if (!parts.label) throw Error(ErrorCode::kBadInput, "wants a label and an expression");
                  if (*parts.label < 0 || *parts.label > kMostLabels)
                    throw Error(ErrorCode::kBadInput,
                                fmt::format("a label must be from 0 to {}", kMostLabels));
                  trees.push_back({parse_s_expression(parts.rest), *parts.label, number});
                });
  return trees;
}

TreeReading learn_reading(const std::vector<LabelledTree>& trees) {
  TreeReading reading;
  Learnt learnt;
  for (const LabelledTree& each : trees) {
    reading.nodes = std::max(reading.nodes, std::int64_t(each.tree.size()));
    reading.labels = std::max(reading.labels, each.label + 1);
    for (const TreeNode& node : each.tree) learnt.tree_tokens.emplace(node.name, 0);
  }
  std::int64_t token = 1;
  for (auto& [name, number] : learnt.tree_tokens) number = token++;
  reading.learnt = std::make_shared<const Learnt>(std::move(learnt));
  return reading;
}

class TreeSource final : public Source {
 public:
  TreeSource(std::vector<LabelledTree> trees, const TreeReading& reading)
      : trees_(std::move(trees)),
        reading_(reading) {
    spec_.input_type = ElementType::kInt64;
    spec_.input_shape = {reading.nodes, 2};
    spec_.classes = reading.labels;
    spec_.input_tokens = tokens_for(reading.learnt->tree_tokens);
  }
  std::uint64_t size() const override { return trees_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override {
    write_tree(trees_[index].tree, reading_.learnt->tree_tokens, reading_.nodes,
               static_cast<std::int64_t*>(input));
    *static_cast<std::int64_t*>(target) = trees_[index].label;
  }

 private:
  std::vector<LabelledTree> trees_;
  TreeReading reading_;
};

// Throws Error(kBadInput) with `file` and line for trees with larger labels or more nodes than `reading`
// allows.
void require_readable(const std::vector<LabelledTree>& trees, const TreeReading& reading,
                      const std::string& file) {
  for (const LabelledTree& each : trees)
    if (each.label >= reading.labels || std::int64_t(each.tree.size()) > reading.nodes)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("'{}', line {}: label {} with a tree of {} nodes; labels of what was trained on end at "
                      "{}, its trees have {} nodes at most",
                      file, each.line, each.label, each.tree.size(), reading.labels - 1, reading.nodes));
}

DataSet read_parts(const DataConfig& config,
                   const std::function<TreeReading(const std::vector<LabelledTree>&)>& reading_of) {
  std::vector<LabelledTree> train = read_trees(config.path + "/train.sexp");
  std::vector<LabelledTree> test = read_trees(config.path + "/test.sexp");
  const TreeReading reading = reading_of(train);
  require_readable(train, reading, config.path + "/train.sexp");
  require_readable(test, reading, config.path + "/test.sexp");
  return {std::make_unique<TreeSource>(std::move(train), reading),
          std::make_unique<TreeSource>(std::move(test), reading), reading.learnt};
}

}  // namespace

DataSet open_s_expressions(const DataConfig& config, const OptionMap&) {
  return read_parts(config, learn_reading);
}

DataSet reopen_s_expressions(const DataConfig& config, const OptionMap&, const KnownSet& known) {
  if (!known.learnt || !has_trees(known.spec)) return read_parts(config, learn_reading);
  return read_parts(config, [&known](const auto&) {
    return TreeReading{
        .learnt = known.learnt, .nodes = known.spec.input_shape[0], .labels = known.spec.classes};
  });
}

TreeTokens tree_tokens(const DataConfig& config) {
  if (config.name == "synthetic_logic") return SyntheticLogic::tokens();
  if (config.name == "s_expressions")
    return learn_reading(read_trees(config.path + "/train.sexp")).learnt->tree_tokens;
  return {};
}

std::vector<AskedTree> read_asked_trees(const std::string& file) {
  std::vector<AskedTree> trees;
  for_each_line(file, "", [&](std::string_view line, std::int64_t number) {
    const SplitLine parts = split_label(line);
    const bool only_a_number = parts.rest.find_first_not_of(" \t\r") == std::string_view::npos;
    trees.push_back({parse_s_expression(only_a_number ? line : parts.rest), number});
  });
  return trees;
}

}  // namespace distbelief::data
