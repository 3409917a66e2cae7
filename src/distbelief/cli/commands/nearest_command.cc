#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/data/learnt.h"
#include "distbelief/run/saved_tables.h"
#include "distbelief/tasks/task.h"

// Finds words with similar vectors in a word2vec run.
namespace distbelief::cli {
namespace {

struct NearestFlags {
  std::string run_dir;
  std::vector<std::string> words;
  std::string data_dir;
  int top = 10;
  bool json = false;
};

struct Neighbour {
  std::uint32_t token = 0;
  double cosine = 0;
};

std::uint32_t token_of_word(const data::Vocabulary& vocabulary, const std::string& word) {
  const std::vector<std::uint32_t> tokens = vocabulary.encode(word, "command line", 0);
  if (tokens.size() == 1 && tokens[0] > data::Vocabulary::kUnknownWord) return tokens[0];
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("'{}' is no word that the run has a vector for; it has the {} most frequent words of its "
                  "text (data.words)",
                  word, vocabulary.size() - data::Vocabulary::kUnknownWord - 1));
}

std::string word_of(const data::Vocabulary& vocabulary, std::uint32_t token) {
  const std::string text = vocabulary.decode(token);  // begins with a space
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

double length_of(const float* row, std::size_t width) {
  double sum = 0;
  for (std::size_t i = 0; i < width; ++i) sum += double(row[i]) * double(row[i]);
  return std::sqrt(sum);
}

std::vector<Neighbour> nearest_to(std::uint32_t token, const run::SavedTables& rows, std::size_t width,
                                  std::uint32_t vocabulary, int top) {
  const float* const own = rows.find(0, token);
  if (own == nullptr) return {};  // too rare to occur in training
  std::vector<Neighbour> found;
  for (std::uint32_t other = data::Vocabulary::kUnknownWord + 1; other < vocabulary; ++other) {
    const float* const row = rows.find(0, other);
    if (other == token || row == nullptr) continue;
    double product = 0;
    for (std::size_t i = 0; i < width; ++i) product += double(own[i]) * double(row[i]);
    found.push_back({other, product / std::max(1e-30, length_of(own, width) * length_of(row, width))});
  }
  const auto end = found.begin() + std::min<std::ptrdiff_t>(top, std::ptrdiff_t(found.size()));
  std::ranges::partial_sort(found, end, std::greater(), &Neighbour::cosine);
  found.erase(end, found.end());
  return found;
}

int nearest_words(const NearestFlags& flags, const Invocation& invocation) {
  pin_or_restart(invocation);
  const RunModelOptions options{.data_dir = flags.data_dir, .data = RunData::kWhenAsked};
  const Config config = config_of_run(flags.run_dir, options);
  const run::PreparedJob job = run::prepare_blueprint(config, data_of_run(flags.run_dir, config, options));
  if (tasks::task_name(job.config, job.data.train->spec()) != "skip_gram")
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is a run of model {}; nearest words are those of word2vec", flags.run_dir,
                            job.config.model.name));
  const std::unique_ptr<run::SavedTables> rows = rows_of_run(flags.run_dir, job);
  if (!job.data.learnt || !job.data.learnt->vocabulary)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} was trained on text that an earlier version packed, which does not say what its "
                    "tokens stand for; pack it again and train on that",
                    flags.run_dir));
  const data::Vocabulary& vocabulary = *job.data.learnt->vocabulary;
  const std::size_t width = tasks::make_task(job.config, job.data.train->spec())->tables()[0].width;
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& word : flags.words) {
    nlohmann::json answer{{"word", word}, {"nearest", nlohmann::json::array()}};
    for (const Neighbour& each :
         nearest_to(token_of_word(vocabulary, word), *rows, width, vocabulary.size(), flags.top))
      answer["nearest"].push_back({{"word", word_of(vocabulary, each.token)}, {"cosine", each.cosine}});
    all.push_back(std::move(answer));
  }
  if (flags.json) {
    fmt::print("{}\n", all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  for (const auto& answer : all) {
    fmt::print("{}:", answer["word"].get<std::string>());
    for (const auto& each : answer["nearest"])
      fmt::print(" {} ({:.2f})", each["word"].get<std::string>(), each["cosine"].get<double>());
    fmt::print("\n");
  }
  return 0;
}

}  // namespace

void add_nearest(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<NearestFlags>();
  CLI::App* command = app.add_subcommand("nearest", "find the words most similar to given words (word2vec)")
                          ->group(kUseGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("word", flags->words, "words from the text of the run")->required();
  command->add_option("--top", flags->top, "number of similar words to print for each")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command->add_option("--data-dir", flags->data_dir, "path of the text, if it has moved since the run");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer("Example:\n  distbelief nearest runs/words king queen --top 5");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return nearest_words(*flags, invocation); }; });
}

}  // namespace distbelief::cli
