#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace distbelief {

enum class ErrorCode {
  kBadInput,     // unusable job file, flag, data file or checkpoint
  kUnavailable,  // something outside is missing: a file, a host, disk space
  kTimeout,      // a deadline passed
  kAborted,      // another worker failed, or the run was interrupted
  kInternal,     // a library below us failed
  kJobFailed,    // the job's own computation failed, and would fail again
};

// Exit code for an error: 2 for bad input, 1 for everything else.
int exit_code(ErrorCode code);
std::string_view to_string(ErrorCode code);

// The only exception type of the system. A message says what was wanted, what was found and what to do. Rank,
// operation and step are filled in where they are known; what() includes all of them.
class Error : public std::runtime_error {
 public:
  struct Where {
    int rank = -1;
    std::string operation{};
    std::int64_t step = -1;
    std::string key{};  // job key whose value is wrong, "train.lr"; reported by its place in the job file
  };

  Error(ErrorCode code, const std::string& message);
  Error(ErrorCode code, const std::string& message, Where where);

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const Where& where() const { return where_; }

  // A copy with the step, unless this error has a step already or is kAborted, which reports another
  // worker's failure.
  Error at_step(std::int64_t step) const;

 private:
  ErrorCode code_;
  std::string message_;
  Where where_;
};

[[noreturn]] void invariant_failed(const char* expression, const char* file, int line);

}  // namespace distbelief

// A broken invariant is a bug in this program: it aborts with the reason instead of throwing an Error.
#define DISTBELIEF_INVARIANT(expression) \
  ((expression) ? void(0) : ::distbelief::invariant_failed(#expression, __FILE__, __LINE__))
