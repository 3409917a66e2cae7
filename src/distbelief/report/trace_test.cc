#include "distbelief/report/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

const Trace::Time kOrigin{std::chrono::seconds(1000)};

Trace::Options rank(int rank) {
  return {.rank = rank, .process_name = "worker " + std::to_string(rank), .origin = kOrigin};
}

Json events_of(const Json& all, const std::string& kind) {
  Json found = Json::array();
  for (const Json& event : all) {
    if (event.at("ph") == kind) found.push_back(event);
  }
  return found;
}

TEST(Trace, WritesSpansInMicrosecondsFromTheOrigin) {
  Trace trace(rank(3));
  trace.span("forward", "compute", kOrigin + microseconds(10), kOrigin + nanoseconds(12'500), 2,
             R"({"lane":4})");
  const Json spans = events_of(Json::parse(trace.json()), "X");
  ASSERT_EQ(spans.size(), 1u);
  const Json wanted = {{"ph", "X"},        {"pid", 3},   {"tid", 2},   {"name", "forward"},
                       {"cat", "compute"}, {"ts", 10.0}, {"dur", 2.5}, {"args", {{"lane", 4}}}};
  EXPECT_EQ(spans[0], wanted);
}

TEST(Trace, NamesProcessAndThreads) {
  Trace trace(rank(1));
  trace.name_thread(0, "main");
  trace.name_thread(7, "exchange");
  const std::string text = events_of(Json::parse(trace.json()), "M").dump();
  EXPECT_NE(text.find(R"({"args":{"name":"worker 1"},"name":"process_name","ph":"M","pid":1,"tid":0})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"({"args":{"name":"exchange"},"name":"thread_name","ph":"M","pid":1,"tid":7})"),
            std::string::npos)
      << text;
}

TEST(Trace, KeepsBadArgumentsAndNamesFromBreakingTheFile) {
  Trace trace(rank(0));
  trace.span("quote \" and \xff", "c", kOrigin, kOrigin, 0, "{broken");
  const Json spans = events_of(Json::parse(trace.json()), "X");
  EXPECT_EQ(spans.at(0).at("args"), (Json{{"note", "{broken"}}));
}

TEST(Trace, CountsWhatDoesNotFit) {
  Trace::Options options = rank(0);
  options.max_events = 3;
  Trace trace(options);
  for (int i = 0; i < 10; ++i) trace.span("s", "c", kOrigin, kOrigin, 0);
  EXPECT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace.dropped(), 7u);
  EXPECT_NE(trace.json().find("7 events dropped"), std::string::npos);
}

TEST(Trace, TakesSpansFromSeveralThreads) {
  Trace trace(rank(0));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&trace, t] {
        for (int i = 0; i < 500; ++i) trace.span("s", "c", kOrigin, kOrigin, t);
      });
    }
  }
  EXPECT_EQ(trace.size(), 2000u);
  EXPECT_EQ(events_of(Json::parse(trace.json()), "X").size(), 2000u);
}

TEST(Trace, MergesWorkersIntoOneFile) {
  const ScratchFolder folder;
  Trace first(rank(0)), second(rank(1));
  first.span("a", "c", kOrigin, kOrigin, 0);
  second.span("b", "c", kOrigin, kOrigin, 0);
  Trace::write_merged(folder.path() / "trace.json", {first.json(), " [ ] ", second.json()});
  const Json file = Json::parse(read_text(folder.path() / "trace.json"));
  const Json spans = events_of(file.at("traceEvents"), "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].at("pid"), 0);
  EXPECT_EQ(spans[1].at("pid"), 1);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Trace, RefusesToMergeWhatIsNoArray) {
  const ScratchFolder folder;
  for (const char* bad : {"", "{}", "[1", "[1]]", "  "}) {
    try {
      Trace::write_merged(folder.path() / "trace.json", {"[]", bad});
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(error.message().find("worker 1"), std::string::npos);
    }
  }
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace
}  // namespace distbelief::report
