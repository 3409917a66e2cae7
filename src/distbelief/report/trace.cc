#include "distbelief/report/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

double microseconds(Trace::Time::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

Json metadata(int rank, int thread, const char* what, const char* key, const std::string& value) {
  return {{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", what}, {"args", {{key, value}}}};
}

Json parse_args(const std::string& text) {
  Json args = Json::parse(text, nullptr, false);
  return args.is_object() ? args : Json{{"note", text}};
}

// The text between the brackets of a JSON array.
std::string_view array_content(std::size_t rank, std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos || text[first] != '[' || !Json::accept(text)) {
    throw Error(ErrorCode::kBadInput, fmt::format("the trace of worker {} is not a JSON array", rank));
  }
  text = text.substr(first + 1, text.rfind(']') - first - 1);
  return text.find_first_not_of(kSpace) == std::string_view::npos ? std::string_view() : text;
}

}  // namespace

Trace::Trace(Options options) : options_(std::move(options)) {}

void Trace::name_thread(int thread, std::string name) {
  const std::scoped_lock lock(mutex_);
  thread_names_[thread] = std::move(name);
}

void Trace::span(std::string_view name, std::string_view category, Time begin, Time end, int thread,
                 std::string_view args) {
  Event event{std::string(name), std::string(category), begin, end, thread, std::string(args)};
  const std::scoped_lock lock(mutex_);
  if (events_.size() < options_.max_events) {
    events_.push_back(std::move(event));
  } else {
    ++dropped_;
  }
}

std::size_t Trace::size() const {
  const std::scoped_lock lock(mutex_);
  return events_.size();
}

std::uint64_t Trace::dropped() const {
  const std::scoped_lock lock(mutex_);
  return dropped_;
}

std::string Trace::json() const {
  const std::scoped_lock lock(mutex_);
  Json all = Json::array();
  all.push_back(metadata(options_.rank, 0, "process_name", "name", options_.process_name));
  all.push_back({{"ph", "M"},
                 {"pid", options_.rank},
                 {"tid", 0},
                 {"name", "process_sort_index"},
                 {"args", {{"sort_index", options_.rank}}}});
  if (dropped_ > 0) {
    all.push_back(
        metadata(options_.rank, 0, "process_labels", "labels", fmt::format("{} events dropped", dropped_)));
  }
  for (const auto& [thread, name] : thread_names_) {
    all.push_back(metadata(options_.rank, thread, "thread_name", "name", name));
  }
  for (const Event& event : events_) {
    Json item = {{"ph", "X"},
                 {"pid", options_.rank},
                 {"tid", event.thread},
                 {"name", event.name},
                 {"cat", event.category},
                 {"ts", microseconds(event.begin - options_.origin)},
                 {"dur", microseconds(event.end - event.begin)}};
    if (!event.args.empty()) item["args"] = parse_args(event.args);
    all.push_back(std::move(item));
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Trace::write_merged(const std::filesystem::path& path, const std::vector<std::string>& per_rank_json) {
  std::vector<std::string_view> pieces{"{\"displayTimeUnit\":\"ms\",\"traceEvents\":["};
  bool first = true;
  for (std::size_t rank = 0; rank < per_rank_json.size(); ++rank) {
    const std::string_view content = array_content(rank, per_rank_json[rank]);
    if (content.empty()) continue;
    if (!std::exchange(first, false)) pieces.push_back(",\n");
    pieces.push_back(content);
  }
  pieces.push_back("]}\n");
  write_atomically(path, pieces);
}

}  // namespace distbelief::report
