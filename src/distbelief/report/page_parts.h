#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "distbelief/report/chart.h"
#include "distbelief/report/run_history.h"

// The parts of report.html besides the curves, as HTML. Pure functions. They leave out values that are
// missing or malformed in the files.
namespace distbelief::report {

ChartMark::Kind kind_of(const RunEvent& event);
int phase_colour(std::size_t phase);

// `summary` is null while the run is in progress, because the file may describe an earlier part of it.
std::string key_figures(const nlohmann::json& summary, const RunHistory& history);
// A bar for each worker with the seconds that it spent in each phase.
std::string worker_balance(const nlohmann::json& summary);
// Confusion matrix and sample predictions.
std::string prediction_parts(const nlohmann::json& predictions);
std::string event_table(const std::vector<RunEvent>& events, const RunHistory& history);

}  // namespace distbelief::report
