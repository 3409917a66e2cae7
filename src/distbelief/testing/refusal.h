#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "distbelief/base/error.h"

namespace distbelief::testing {

// The message of the kBadInput error that the call must throw; "accepted" when it throws nothing.
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
