#include "distbelief/data/io/http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

TEST(ContentRange, HasTheFirstByteTheLastAndAll) {
  const auto range = parse_content_range("bytes 100-199/1000");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 100u);
  EXPECT_EQ(range->end, 200u);
  EXPECT_EQ(range->all, 1000u);
  EXPECT_EQ(parse_content_range("Bytes 0-0/*")->all, 0u);
}

TEST(ContentRange, OfOtherFormsIsNone) {
  for (const char* text :
       {"", "bytes", "bytes ", "bytes */1000", "bytes 5-4/10", "bytes 1-2", "bytes 1-2/", "bytes 1-2/x",
        "bytes 1-2/3 4", "bytes -1-2/3", "lines 1-2/3", "bytes 0-18446744073709551615/*",
        "bytes 99999999999999999999-2/3", "bytes 1-2/99999999999999999999"})
    EXPECT_FALSE(parse_content_range(text)) << text;
}

// Accepts connections in its backlog and never answers.
class SilentServer {
 public:
  SilentServer() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, length), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    EXPECT_EQ(getsockname(socket_, any, &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { close(socket_); }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  std::string url() const { return fmt::format("http://127.0.0.1:{}/x", port_); }

 private:
  int socket_;
  int port_ = 0;
};

TEST(HttpClient, GivesUpOnAServerThatSaysNothing) {
  const SilentServer server;
  const HttpClient client({.attempts = 2,
                           .first_pause = std::chrono::milliseconds(1),
                           .silence_deadline = std::chrono::seconds(1)});
  try {
    client.read_all(server.url(), 100);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(error.message().find(server.url()), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("(2 attempts)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace distbelief::data
