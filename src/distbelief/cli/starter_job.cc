#include "distbelief/cli/starter_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/options.h"
#include "distbelief/job/toml_value.h"

namespace distbelief::cli {
namespace {

constexpr std::uint64_t kMostStarterBatch = 64;
constexpr std::uint64_t kStarterSamples = 200'000;  // approximate number over all epochs
constexpr std::uint64_t kMostStarterEpochs = 20;

std::string model_section(const data::Finding& finding) {
  switch (finding.kind) {
    case data::FindingKind::kTokens:
      return "name = \"gpt\"\nlayers = 2                  # more and wider learn better, and slower\n"
             "width = 64\nheads = 4\n";
    case data::FindingKind::kFeatureClasses:
    case data::FindingKind::kFeatureValues:
      return "name = \"mlp\"\nhidden = [64, 32]           # widths of the hidden layers\n";
    case data::FindingKind::kTrees:
      return fmt::format(
          "name = \"tree_lstm\"\ntokens = {}                 # names, and two that stand for none and "
          "for any other\n",
          finding.names + 2);
    case data::FindingKind::kImages: break;
  }
  // The convolutional network halves its input twice and needs some pixels after that.
  constexpr std::int64_t kLeastForConvolutions = 12;
  if (finding.side < kLeastForConvolutions) return "name = \"mlp\"\nhidden = [128]\n";
  return "name = \"cnn\"                # resnet18 learns more, and takes longer\n";
}

std::string data_section(const data::Finding& finding, const std::string& path) {
  std::string text =
      fmt::format("name = {}\npath = {}\n", job::written(finding.data_set), job::written(path));
  for (const auto& [name, value] : finding.options)
    text += fmt::format("{} = {}\n", name, job::written(value));
  return text;
}

std::string train_section(const data::Finding& finding) {
  const std::uint64_t samples = std::max<std::uint64_t>(finding.samples, 1);
  const std::uint64_t batch = std::clamp<std::uint64_t>(samples / 20, 4, kMostStarterBatch);
  const std::uint64_t epochs = std::clamp<std::uint64_t>(kStarterSamples / samples, 1, kMostStarterEpochs);
  return fmt::format(
      "epochs = {}\nbatch_size = {}             # over all workers together\nseed = 1\n"
      "optimizer = \"adamw\"\nlr = 0.001\nschedule = \"cosine\"         # from lr down to 0 at the last "
      "step\n",
      epochs, batch);
}

}  // namespace

// Keeps a comment on one line; a line break would make the rest part of the job.
std::string in_one_line(std::string note) {
  std::ranges::replace_if(
      note, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return note;
}

std::string starter_job(const data::Finding& finding, const std::string& path) {
  std::string text = "# A start, written by `distbelief init`. What it found:\n";
  for (const std::string& note : finding.notes) text += fmt::format("#   {}\n", in_one_line(note));
  text += fmt::format(
      "# `distbelief datasets` lists the options of '{}', docs/reference/job_file.md every other key.\n",
      finding.data_set);
  text += "\n[model]\n" + model_section(finding);
  text += "\n[data]\n" + data_section(finding, path);
  text += "\n[train]\n" + train_section(finding);
  text += "\n[parallel]\nworkers = 2\n";
  return text;
}

}  // namespace distbelief::cli
