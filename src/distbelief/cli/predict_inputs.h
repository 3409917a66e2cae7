#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/data/learnt.h"
#include "distbelief/data/source.h"

// What `distbelief predict` is given, as samples like those that the network was trained on.
namespace distbelief::cli {

// How many tokens of a sample the network sees, and after which of them, or at which, it is asked.
struct TokenPlace {
  std::int64_t used = 0;
  std::vector<std::int64_t> asked{};
  std::vector<std::int64_t> truth{};  // of those that are hidden; empty where it is not known
};

// Samples in memory. Immutable once filled; targets are 0 where they are not known.
class GivenSamples final : public data::Source {
 public:
  explicit GivenSamples(const data::SampleSpec& spec);
  // Without a place all tokens are seen, and the last is asked about.
  void add(std::string name, const void* input, std::optional<TokenPlace> place = {});
  std::uint64_t size() const override { return names_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;
  const std::string& name(std::uint64_t index) const { return names_[index]; }
  const TokenPlace& place(std::uint64_t index) const { return places_[index]; }

 private:
  std::size_t bytes_;  // of one
  std::vector<std::string> names_;
  std::vector<TokenPlace> places_;
  std::vector<std::byte> inputs_;
};

// The first and the last that "test:N" or "test:N-M" names, of so many samples. Throws Error(kBadInput).
std::pair<std::uint64_t, std::uint64_t> parse_test_range(const std::string& input, std::uint64_t samples);

// What a model of tokens is asked: what comes next, or what is hidden, in a text behind the word [MASK], in a
// row of numbers behind ? or the number after the last token's.
enum class TokenQuestion { kNext, kHidden };

// Rows of the numbers that the network takes, for what was not trained on a table; a first row of other words
// names the columns. Throws Error(kBadInput) with file and line.
void add_numbers(const std::string& input, GivenSamples& samples,
                 TokenQuestion question = TokenQuestion::kNext);

// The way from files to samples that a run's data set takes, and back from numbers to what they stand for, as
// far as the set knows it (data/learnt.h). Immutable; any thread may use it.
class InputReader {
 public:
  // `data` outlives it.
  explicit InputReader(const data::DataSet& data, TokenQuestion question = TokenQuestion::kNext);

  // Adds what `input` names: an image (JPEG, PNG, PNM), a table (.csv, .tsv), a text (.txt, of a run on text
  // any file that looks like one, or text:WORDS), trees (.sexp, or tree:EXPRESSION), an IDX file of images,
  // or samples of the test set (test:7, test:0-9; of a model of hidden tokens every seventh is). Tables,
  // texts and IDX files may be .gz. Throws Error(kBadInput) with file and line or byte, Error(kUnavailable)
  // when there is no such file.
  void add(const std::string& input, GivenSamples& samples) const;

  // What class or token `index` is called; empty when it is known by number only.
  std::string class_name(std::int64_t index) const;
  // What the network gives for a value, in the target's own units.
  double value(double output) const;

 private:
  void add_file(const std::string& input, GivenSamples& samples) const;
  void add_image(const std::string& input, GivenSamples& samples) const;
  void add_rows(const std::string& input, GivenSamples& samples) const;
  void add_text_file(const std::string& input, GivenSamples& samples) const;
  void add_text(const std::string& name, const std::string& text, GivenSamples& samples) const;
  void add_tree_file(const std::string& input, GivenSamples& samples) const;
  void add_tree(const std::string& name, const std::vector<data::TreeNode>& tree,
                GivenSamples& samples) const;
  std::vector<std::int64_t> tokens_of(const std::string& name, const std::string& text) const;

  const data::Source& test_;
  TokenQuestion question_;
  std::shared_ptr<const data::Learnt> learnt_;
  const std::optional<data::ImageSettings>& images_;  // of data sets of image files
  const std::optional<data::TableSchema>& table_;
  const std::optional<data::Vocabulary>& vocabulary_;
  const data::TreeTokens& tree_tokens_;  // none: no data set of trees
};

}  // namespace distbelief::cli
