#include <cstring>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/data/slices/slice.h"

// One slice. Its checksum is put right first, or nothing behind it would ever be reached.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* bytes, std::size_t size) {
  using namespace distbelief;
  std::vector<std::uint8_t> slice(bytes, bytes + size);
  if (size >= data::kSliceHeaderBytes) {
    const std::uint64_t sum = data::slice_checksum(slice);
    std::memcpy(slice.data() + data::kSliceHeaderBytes - sizeof sum, &sum, sizeof sum);
  }
  try {
    const std::vector<std::uint8_t> raw = data::decode_slice(slice, 13, 1 << 20, {"slices", 0});
    DISTBELIEF_INVARIANT(raw.size() <= (1 << 20) && raw.size() % 13 == 0);
  } catch (const Error& error) {
    DISTBELIEF_INVARIANT(error.code() == ErrorCode::kBadInput);
  }
  return 0;
}
