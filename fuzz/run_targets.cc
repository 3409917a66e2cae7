#include <nlohmann/json.hpp>
#include <string>

#include "distbelief/base/json_text.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/report/page.h"
#include "distbelief/report/run_history.h"
#include "distbelief/server/update_log.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {

// What a run folder has, as far as it is JSON: metrics and events, from which the page is drawn, the summary
// and the predictions in it, and the servers' logs.
void json_lines(std::span<const std::uint8_t> input) {
  static const ScratchFolder folder;
  const std::string lines(text_of(input));
  for (const char* name : {"metrics.jsonl", "events.jsonl"}) write_text(folder.path() / name, lines);
  report::RunHistory history(folder.path());
  history.read_new();
  const nlohmann::json found = json_or_discarded(lines);
  const nlohmann::json value = found.is_discarded() ? nlohmann::json() : found;
  report::render_page({.history = history,
                       .name = "run",
                       .summary = value,
                       .predictions = value,
                       .text = value,
                       .job = lines});
  const MemoryFile log(input);
  parse_or_refuse([&] { server::read_log(log.path()); });
}

}  // namespace distbelief::fuzz
