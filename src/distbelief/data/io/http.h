#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace distbelief::data {

// What an answer's Content-Range says: "bytes 100-199/1000". Nothing when that cannot be.
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // behind its last byte
  std::uint64_t all = 0;  // length of what lies there; 0: the server does not say ("*")
};
std::optional<ContentRange> parse_content_range(std::string_view text);

// GET requests over HTTP(S) with libcurl: connections are kept and used again, one per thread that asks at
// the same time. A request that fails for a reason that may pass (no connection, cut off, a status of 5xx,
// 408 or 429, silence) is made again after a pause, from the byte that was reached; each pause is twice the
// one before. Then it is Error(kUnavailable), at once for a server whose certificate is not trusted. Safe to
// use from any number of threads; calls block.
class HttpClient {
 public:
  struct Options {
    int attempts = 6;
    std::chrono::milliseconds first_pause{100};
    std::chrono::seconds connect_deadline{10};
    // So long without a byte, and the request has failed. All attempts together are shorter than a loader
    // waits.
    std::chrono::seconds silence_deadline{15};
    // PEM file with the certificates of those who may vouch for an https server; empty: the system's.
    std::string ca_file{};
  };
  HttpClient();
  explicit HttpClient(const Options& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Exactly the bytes [offset, offset + to.size()), with a range request; a server that knows no ranges sends
  // the whole, of which the rest is skipped. Error(kBadInput) when what lies there is shorter.
  void read(const std::string& url, std::uint64_t offset, std::span<std::uint8_t> to) const;

  std::string read_all(const std::string& url, std::uint64_t most_bytes) const;

  // From `offset` to the end. `take` gets the bytes in order; `all` is the whole length, 0 when the server
  // does not say. What it throws ends the request. `restart` is called when the server begins at byte 0 all
  // the same.
  struct Sink {
    std::function<void(std::span<const std::uint8_t> bytes, std::uint64_t all)> take;
    std::function<void()> restart;
  };
  void download(const std::string& url, std::uint64_t offset, const Sink& sink) const;

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
  Options options_;
};

}  // namespace distbelief::data
