#pragma once

#include <vector>

#include "conformance/backends.h"

namespace distbelief::conformance {

// A test that every backend must pass. Its body runs on all ranks and uses EXPECT_ only: a rank that left
// early would keep the others waiting.
struct BackendTest {
  const char* name;
  void (*body)(Backend& backend);
};
const std::vector<BackendTest>& backend_tests();

// The same for one backend alone, between the first two ranks: gigabytes.
const std::vector<BackendTest>& large_tests();

// Tests with communicators of their own; only where `applies`.
struct SilentRankTest {
  const char* name;
  void (*body)(const World& world);
  bool (*applies)(const World& world);
};
const std::vector<SilentRankTest>& silent_rank_tests();

}  // namespace distbelief::conformance
