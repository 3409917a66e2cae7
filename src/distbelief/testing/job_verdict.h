#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "distbelief/job/job_check.h"

namespace distbelief::testing {

// The message of validate() for the default job with these overrides; "fine" when it accepts the job.
inline std::string verdict(const std::vector<std::string>& overrides) {
  Config config;
  for (const std::string& assignment : overrides) job::apply_override(config, assignment);
  try {
    job::validate(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
  return "fine";
}

}  // namespace distbelief::testing
