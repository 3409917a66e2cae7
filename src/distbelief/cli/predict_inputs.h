#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/data/learnt.h"
#include "distbelief/data/source.h"

// Reads the inputs of `distbelief predict` as samples like those of the training data.
namespace distbelief::cli {

// The number of a sample's tokens that the network sees, and the tokens after which, or at which, it
// predicts.
struct TokenPlace {
  std::int64_t used = 0;
  std::vector<std::int64_t> asked{};
  std::vector<std::int64_t> truth{};  // the hidden tokens; empty if unknown
};

// Samples in memory. Immutable once filled; unknown targets are 0.
class GivenSamples final : public data::Source {
 public:
  explicit GivenSamples(const data::SampleSpec& spec);
  // Without a place the network sees all tokens and predicts after the last.
  void add(std::string name, const void* input, std::optional<TokenPlace> place = {});
  std::uint64_t size() const override { return names_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;
  const std::string& name(std::uint64_t index) const { return names_[index]; }
  const TokenPlace& place(std::uint64_t index) const { return places_[index]; }

 private:
  std::size_t bytes_;  // per sample
  std::vector<std::string> names_;
  std::vector<TokenPlace> places_;
  std::vector<std::byte> inputs_;
};

// The first and the last index in "test:N" or "test:N-M", for this number of samples. Throws
// Error(kBadInput).
std::pair<std::uint64_t, std::uint64_t> parse_test_range(const std::string& input, std::uint64_t samples);

// The question to a model of tokens: the next token, or hidden tokens. Those are marked by [MASK] in a text,
// and by ? or the number after the last token's in a row of numbers.
enum class TokenQuestion { kNext, kHidden };

// Reads rows of numbers as network inputs, for networks that were not trained on a table. A first row of
// other words names the columns. Throws Error(kBadInput) with file and line.
void add_numbers(const std::string& input, GivenSamples& samples,
                 TokenQuestion question = TokenQuestion::kNext);

// Converts files to samples as a run's data set does, and numbers back to their meaning as far as the set's
// fitted preprocessing knows it (data/learnt.h). Immutable; any thread may use it.
class InputReader {
 public:
  // `data` must outlive this object.
  explicit InputReader(const data::DataSet& data, TokenQuestion question = TokenQuestion::kNext);

  // Adds the samples in `input`: an image (JPEG, PNG, PNM), a table (.csv, .tsv), a text (.txt, for a run on
  // text any file that looks like one, or text:WORDS), trees (.sexp, or tree:EXPRESSION), an IDX file of
  // images, or samples of the test set (test:7, test:0-9; for a model of hidden tokens every seventh token is
  // hidden). Tables, texts and IDX files may be .gz. Throws Error(kBadInput) with file and line or byte, and
  // Error(kUnavailable) for a missing file.
  void add(const std::string& input, GivenSamples& samples) const;

  // The name of class or token `index`; empty if it has none.
  std::string class_name(std::int64_t index) const;
  // Converts a network's output to the target's own units.
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
  const std::optional<data::ImageSettings>& images_;  // for data sets of image files
  const std::optional<data::TableSchema>& table_;
  const std::optional<data::Vocabulary>& vocabulary_;
  const data::TreeTokens& tree_tokens_;  // empty: not a data set of trees
};

}  // namespace distbelief::cli
