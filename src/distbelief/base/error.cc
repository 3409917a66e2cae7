#include "distbelief/base/error.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace distbelief {
namespace {

std::string full_text(const std::string& message, const Error::Where& where) {
  std::string text;
  if (where.rank >= 0) text += fmt::format("rank {}: ", where.rank);
  text += message;
  if (!where.operation.empty()) text += fmt::format(" [in {}]", where.operation);
  if (where.step >= 0) text += fmt::format(" [step {}]", where.step);
  return text;
}

}  // namespace

int exit_code(ErrorCode code) { return code == ErrorCode::kBadInput ? 2 : 1; }

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadInput: return "bad input";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kTimeout: return "timed out";
    case ErrorCode::kAborted: return "aborted";
    case ErrorCode::kInternal: return "internal error";
    case ErrorCode::kJobFailed: return "the job failed";
  }
  return "unknown";
}

Error::Error(ErrorCode code, const std::string& message) : Error(code, message, Where{}) {}

Error::Error(ErrorCode code, const std::string& message, Where where)
    : std::runtime_error(full_text(message, where)),
      code_(code),
      message_(message),
      where_(std::move(where)) {}

Error Error::at_step(std::int64_t step) const {
  if (where_.step >= 0 || code_ == ErrorCode::kAborted) return *this;
  Where where = where_;
  where.step = step;
  return {code_, message_, std::move(where)};
}

void invariant_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "distbelief: broken invariant '%s' at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace distbelief
