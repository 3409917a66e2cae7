#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "distbelief/base/error.h"

// For tests.
namespace distbelief::testing {

// The message of the kBadInput that a call must end with, or "accepted".
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
  return "accepted";
}

}  // namespace distbelief::testing
