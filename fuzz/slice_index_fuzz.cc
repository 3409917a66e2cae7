#include <string_view>

#include "distbelief/base/error.h"
#include "distbelief/data/slices/index.h"

// index.json of a packed set, without the checksum around it. What is accepted must come back as the same
// text.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* bytes, std::size_t size) {
  using namespace distbelief;
  try {
    const data::SliceIndex index =
        data::parse_slice_set({reinterpret_cast<const char*>(bytes), size}, "index.json");
    const std::string text = data::to_text(index);
    DISTBELIEF_INVARIANT(data::to_text(data::parse_slice_index(text, "again")) == text);
  } catch (const Error& error) {
    DISTBELIEF_INVARIANT(error.code() == ErrorCode::kBadInput);
  }
  return 0;
}
