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

// The Content-Range of a response: "bytes 100-199/1000". Nothing when the text is invalid.
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // one past the last byte
  std::uint64_t all = 0;  // total length; 0: the server does not say ("*")
};
std::optional<ContentRange> parse_content_range(std::string_view text);

// GET requests over HTTP(S) with libcurl. Reuses connections, one per concurrent request. A request that
// fails for a temporary reason (no connection, connection lost, status 5xx, 408 or 429, silence) is retried
// after a pause from the byte that it reached; each pause is twice the previous one. After the last attempt
// it throws Error(kUnavailable); an untrusted certificate throws it at once. Thread-safe; calls block.
class HttpClient {
 public:
  struct Options {
    int attempts = 6;
    std::chrono::milliseconds first_pause{100};
    std::chrono::seconds connect_deadline{10};
    // An attempt fails after this time without a byte. All attempts together take less time than the deadline
    // of a loader.
    std::chrono::seconds silence_deadline{15};
    // PEM file with the certificate authorities for https servers; empty: those of the system.
    std::string ca_file{};
  };
  HttpClient();
  explicit HttpClient(const Options& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Reads exactly the bytes [offset, offset + to.size()) with a range request. If the server ignores ranges,
  // skips the rest of the full response. Throws Error(kBadInput) when the content is shorter.
  void read(const std::string& url, std::uint64_t offset, std::span<std::uint8_t> to) const;

  std::string read_all(const std::string& url, std::uint64_t most_bytes) const;

  // Downloads from `offset` to the end. `take` receives the bytes in order; `all` is the total length, 0 when
  // the server does not say. An exception from `take` ends the request. `restart` is called when the server
  // starts again at byte 0.
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
