#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "distbelief/report/run_history.h"

namespace distbelief::report {

// What report.html is made of. What is not there yet is null, empty or left out of the page.
struct PageContent {
  const RunHistory& history;
  std::string name;                     // of the run folder
  const nlohmann::json& summary;        // summary.json
  const nlohmann::json& predictions;    // predictions.json
  const nlohmann::json& text;           // samples.json: how a language model goes on
  std::string job;                      // the text of job.toml
  std::string samples{};                // samples.png: what a generator draws
  std::string reconstructions{};        // reconstructions.png: what an autoencoder makes of test images
  std::string masks{};                  // masks.png: what a segmentation makes of test images
  std::vector<std::string> left_out{};  // names of such pictures that are too large for the page
  double refresh_seconds = 0;           // more than 0: the run goes on, and the page is loaded anew so often

  bool goes_on() const { return refresh_seconds > 0 || history.goes_on(); }
};

// One HTML document that needs nothing else: no network, no other file. Pure.
std::string render_page(const PageContent& content);

// Makes report.html of a run folder anew, whole or not at all. Throws Error(kUnavailable) when the disk will
// not take it. Files that are missing or damaged leave their part of the page out.
void write_page(const std::filesystem::path& run_dir, const RunHistory& history, double refresh_seconds);

}  // namespace distbelief::report
