// The log names the sender of a refused request.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <limits>

#include "distbelief/testing/test_hostile.h"

namespace distbelief::server {
namespace {

using testing::HostileServiceTest;

// Captures the program's log.
class Overheard {
 public:
  Overheard() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "overheard", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~Overheard() { spdlog::set_default_logger(before_); }
  Overheard(const Overheard&) = delete;
  Overheard& operator=(const Overheard&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(HostileServiceTest, TheLogNamesWhoSentWhatWasRefused) {
  const Overheard overheard;
  serve("async");
  const std::vector<float> bad(testing::kHostileElements, std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < 3; ++i) expect_refused("not finite", [&] { mallory_->ask(push(0), bytes(bad)); });
  const std::string text = overheard.text();
  EXPECT_NE(text.find("refused worker mallory (connection "), std::string::npos) << text;
  EXPECT_NE(text.find("1 times so far: replica 1 sent a number that is not finite"), std::string::npos)
      << text;
  EXPECT_NE(text.find("2 times so far"), std::string::npos) << text;
  EXPECT_EQ(text.find("3 times so far"), std::string::npos) << "the 1st, 2nd, 4th ...: " << text;
}

}  // namespace
}  // namespace distbelief::server
