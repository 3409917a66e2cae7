#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "distbelief/report/run_history.h"

namespace distbelief::report {

// The content of report.html. Missing parts are null or empty and left out of the page.
struct PageContent {
  const RunHistory& history;
  std::string name;                   // run folder
  const nlohmann::json& summary;      // summary.json
  const nlohmann::json& predictions;  // predictions.json
  const nlohmann::json& text;         // samples.json: text that a language model generated
  std::string job;                    // the text of job.toml
  std::string samples{};              // samples.png: images that a generator drew
  std::string reconstructions{};      // reconstructions.png: an autoencoder's reconstructions of test images
  std::string masks{};                // masks.png: segmentation masks of test images
  std::vector<std::string> left_out{};  // pictures that are too large for the page
  double refresh_seconds = 0;  // above 0: the run is in progress and the page reloads at this interval

  bool goes_on() const { return refresh_seconds > 0 || history.goes_on(); }
};

// One self-contained HTML document: no network, no other file. Pure.
std::string render_page(const PageContent& content);

// Rewrites report.html of a run folder, whole or not at all. Throws Error(kUnavailable) when the disk refuses
// it. Leaves out the parts whose files are missing or damaged.
void write_page(const std::filesystem::path& run_dir, const RunHistory& history, double refresh_seconds);

}  // namespace distbelief::report
