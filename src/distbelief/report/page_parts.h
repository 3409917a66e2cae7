#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "distbelief/report/chart.h"
#include "distbelief/report/run_history.h"

// The parts of report.html besides the curves, as HTML. Pure functions; what is missing or not as expected in
// the files is left out.
namespace distbelief::report {

ChartMark::Kind kind_of(const RunEvent& event);
int phase_colour(std::size_t phase);

// Of a run that goes on the summary, which may be of an earlier part of it, is null.
std::string key_figures(const nlohmann::json& summary, const RunHistory& history);
// A bar for each worker, of the seconds that it spent in each phase.
std::string worker_balance(const nlohmann::json& summary);
// Confusion matrix and sample predictions.
std::string prediction_parts(const nlohmann::json& predictions);
std::string event_table(const std::vector<RunEvent>& events, const RunHistory& history);

}  // namespace distbelief::report
