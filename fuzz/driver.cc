// Entry point of libFuzzer; the build selects the target: -DFUZZ_TARGET=csv.
#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  distbelief::fuzz::FUZZ_TARGET({data, size});
  return 0;
}
