#include "distbelief/data/io/http.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

constexpr long kOk = 200, kPart = 206, kNoSuchRange = 416;

// The requested bytes and the progress over all attempts.
struct Wanted {
  std::string url;
  std::uint64_t at = 0;   // offset of the next byte
  std::uint64_t end = 0;  // 0: to the end of the content
  std::function<void(std::span<const std::uint8_t>, std::uint64_t all)> take;
  std::function<void()> restart;  // empty: bytes before `at` are skipped
};

// The state of one attempt.
struct Attempt {
  Wanted& wanted;
  CURL* handle;
  std::uint64_t all = 0;   // total length; 0: unknown
  std::uint64_t ends = 0;  // end of this response; 0: unknown
  std::uint64_t skip = 0;  // bytes still to skip
  bool begun = false;
  bool enough = false;
  std::string refused;                         // defect of the server's response
  std::array<char, CURL_ERROR_SIZE> reason{};  // libcurl's message
  std::exception_ptr thrown;
};

std::string header_value(CURL* handle, const char* name) {
  curl_header* header = nullptr;
  return curl_easy_header(handle, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : "";
}

long status_of(CURL* handle) {
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

std::uint64_t body_bytes(CURL* handle) {
  curl_off_t length = -1;
  curl_easy_getinfo(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  return length > 0 ? static_cast<std::uint64_t>(length) : 0;
}

// Checks the response headers when the first byte arrives.
bool begin_answer(Attempt& attempt) {
  attempt.begun = true;
  const long status = status_of(attempt.handle);
  if (status == kPart) {
    const auto range = parse_content_range(header_value(attempt.handle, "Content-Range"));
    if (range && range->begin == attempt.wanted.at) {
      attempt.all = range->all;
      if (body_bytes(attempt.handle) == range->end - range->begin) attempt.ends = range->end;
      return true;
    }
    attempt.refused = "it answered with another range than the one asked for";
    return false;
  }
  if (status != kOk) return false;  // the body is an error page
  attempt.all = attempt.ends = body_bytes(attempt.handle);
  if (attempt.wanted.at > 0 && attempt.wanted.restart) {
    attempt.wanted.restart();
    attempt.wanted.at = 0;
  }
  attempt.skip = attempt.wanted.at;
  return true;
}

std::size_t take_bytes(char* data, std::size_t, std::size_t count, void* context) noexcept {
  Attempt& attempt = *static_cast<Attempt*>(context);
  Wanted& wanted = attempt.wanted;
  try {
    if (!attempt.begun && !begin_answer(attempt)) return 0;
    const std::uint64_t passed = std::min<std::uint64_t>(attempt.skip, count);
    attempt.skip -= passed;
    std::uint64_t size = count - passed;
    if (wanted.end > 0) size = std::min(size, wanted.end - wanted.at);
    if (size > 0)
      wanted.take({reinterpret_cast<const std::uint8_t*>(data) + passed, static_cast<std::size_t>(size)},
                  attempt.all);
    wanted.at += size;
  } catch (...) {
    attempt.thrown = std::current_exception();
    return 0;
  }
  attempt.enough = wanted.end > 0 && wanted.at == wanted.end;
  // Returning 0 aborts the transfer and its connection: the server would send more than is wanted.
  return attempt.enough && attempt.ends != wanted.end ? 0 : count;
}

Error unavailable(const std::string& url, const std::string& reason, int attempts) {
  return Error(ErrorCode::kUnavailable,
               fmt::format("cannot get '{}': {}{}; is the server there, and is the address right?", url,
                           reason, attempts > 1 ? fmt::format(" ({} attempts)", attempts) : ""));
}

Error untrusted(const Attempt& attempt, CURLcode code) {
  const std::string reason = attempt.reason[0] != '\0' ? attempt.reason.data() : curl_easy_strerror(code);
  return Error(
      ErrorCode::kUnavailable,
      fmt::format("cannot get '{}': {}; a server with a certificate of your own needs the PEM file of "
                  "who signed it: data.ca_file, --ca-file or SSL_CERT_FILE",
                  attempt.wanted.url, reason));
}

// Whether the certificate is at fault; another attempt would see the same one.
bool is_about_trust(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

bool may_pass(long status) { return status >= 500 || status == 408 || status == 429; }

Error ends_early_at(const Attempt& attempt) {
  return Error(ErrorCode::kBadInput,
               fmt::format("'{}', byte {}: what the server has ends here, more was wanted",
                           attempt.wanted.url, attempt.all > 0 ? attempt.all : attempt.wanted.at));
}

// Whether all bytes arrived. If not, sets `reason` to retry; throws when a retry cannot help.
bool is_done(Attempt& attempt, CURLcode code, std::string& reason) {
  if (attempt.thrown) std::rethrow_exception(attempt.thrown);
  if (attempt.enough) return true;
  if (is_about_trust(code)) throw untrusted(attempt, code);
  const long status = status_of(attempt.handle);
  const Wanted& wanted = attempt.wanted;
  if (code == CURLE_OK && (status == kPart || status == kOk)) {
    const bool short_of_all = attempt.all > 0 && wanted.at < attempt.all;
    if (wanted.end == 0 && !short_of_all && attempt.skip == 0) return true;
    if (wanted.end > 0 && attempt.all > 0 && attempt.all < wanted.end) throw ends_early_at(attempt);
    reason = "it sent less than it said";
    return false;
  }
  if (status == kNoSuchRange) throw ends_early_at(attempt);
  if (status >= 400 && !may_pass(status))
    throw unavailable(wanted.url, fmt::format("the server answered {}", status), 1);
  reason = !attempt.refused.empty() ? attempt.refused
           : status >= 400          ? fmt::format("the server answered {}", status)
                                    : curl_easy_strerror(code);
  return false;
}

void prepare(CURL* handle, const HttpClient::Options& options) {
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_deadline.count()));
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.silence_deadline.count()));
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "distbelief");
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_bytes);
  if (!options.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, options.ca_file.c_str());
}

bool attempt_once(CURL* handle, Wanted& wanted, std::string& reason) {
  Attempt attempt{.wanted = wanted, .handle = handle, .refused = {}, .thrown = {}};
  curl_easy_setopt(handle, CURLOPT_URL, wanted.url.c_str());
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &attempt);
  const std::string range = wanted.end > 0   ? fmt::format("{}-{}", wanted.at, wanted.end - 1)
                            : wanted.at == 0 ? ""
                                             : fmt::format("{}-", wanted.at);
  curl_easy_setopt(handle, CURLOPT_RANGE, range.empty() ? nullptr : range.c_str());
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, attempt.reason.data());
  const CURLcode code = curl_easy_perform(handle);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, nullptr);
  return is_done(attempt, code, reason);
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (strncasecmp(std::string(text).c_str(), kUnit.data(), kUnit.size()) != 0) return std::nullopt;
  const char* at = text.data() + kUnit.size();
  const char* const end = text.data() + text.size();
  const auto number = [&](std::uint64_t& value) {
    const auto [after, fault] = std::from_chars(at, end, value);
    at = after;
    return fault == std::errc{};
  };
  const auto sign = [&](char wanted) { return at != end && *at++ == wanted; };
  ContentRange range;
  std::uint64_t last = 0;
  if (!number(range.begin) || !sign('-') || !number(last) || !sign('/')) return std::nullopt;
  if (!number(range.all) && !sign('*')) return std::nullopt;
  range.end = last + 1;
  // A range beyond the total length is valid here: the caller reports that the content is too short.
  return at == end && range.end > range.begin ? std::optional(range) : std::nullopt;
}

class HttpClient::Pool {
 public:
  explicit Pool(const Options& options) : options_(options) {
    static std::once_flag begun;
    std::call_once(begun, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  }
  ~Pool() {
    for (CURL* handle : idle_) curl_easy_cleanup(handle);
  }

  // Holds a handle for exclusive use by one thread during its lifetime.
  class Lease {
   public:
    explicit Lease(Pool& pool) : pool_(pool), handle_(pool.take()) {}
    ~Lease() { pool_.give_back(handle_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    CURL* handle() const { return handle_; }

   private:
    Pool& pool_;
    CURL* handle_;
  };

 private:
  CURL* take() {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      CURL* handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
    CURL* handle = curl_easy_init();
    if (handle == nullptr) throw Error(ErrorCode::kInternal, "libcurl cannot start");
    prepare(handle, options_);
    return handle;
  }
  void give_back(CURL* handle) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(handle);
  }

  Options options_;
  std::mutex mutex_;
  std::vector<CURL*> idle_;
};

namespace {

// Repeats attempts until all bytes arrived. An attempt that made progress does not count as failed.
void get_all_of(CURL* handle, Wanted& wanted, const HttpClient::Options& options) {
  auto pause = options.first_pause;
  std::string reason;
  for (int failed = 0; failed < options.attempts;) {
    const std::uint64_t before = wanted.at;
    if (attempt_once(handle, wanted, reason)) return;
    if (wanted.at > before) {
      failed = 0;
      pause = options.first_pause;
    } else {
      ++failed;
    }
    if (failed < options.attempts) std::this_thread::sleep_for(pause);
    pause *= 2;
  }
  throw unavailable(wanted.url, reason, options.attempts);
}

}  // namespace

HttpClient::HttpClient() : HttpClient(Options{}) {}
HttpClient::HttpClient(const Options& options) : pool_(std::make_unique<Pool>(options)), options_(options) {}
HttpClient::~HttpClient() = default;

void HttpClient::read(const std::string& url, std::uint64_t offset, std::span<std::uint8_t> to) const {
  if (to.empty()) return;
  std::size_t done = 0;
  Wanted wanted{.url = url,
                .at = offset,
                .end = offset + to.size(),
                .take =
                    [&](std::span<const std::uint8_t> bytes, std::uint64_t) {
                      std::memcpy(to.data() + done, bytes.data(), bytes.size());
                      done += bytes.size();
                    },
                .restart = {}};
  const Pool::Lease lease(*pool_);
  get_all_of(lease.handle(), wanted, options_);
}

std::string HttpClient::read_all(const std::string& url, std::uint64_t most_bytes) const {
  std::string text;
  const auto take = [&](std::span<const std::uint8_t> bytes, std::uint64_t) {
    if (text.size() + bytes.size() > most_bytes)
      throw Error(ErrorCode::kBadInput, fmt::format("'{}' has more than {} bytes", url, most_bytes));
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  download(url, 0, {.take = take, .restart = [&text] { text.clear(); }});
  return text;
}

void HttpClient::download(const std::string& url, std::uint64_t offset, const Sink& sink) const {
  Wanted wanted{.url = url, .at = offset, .end = 0, .take = sink.take, .restart = sink.restart};
  const Pool::Lease lease(*pool_);
  get_all_of(lease.handle(), wanted, options_);
}

}  // namespace distbelief::data
