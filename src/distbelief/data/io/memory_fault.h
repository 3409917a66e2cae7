#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "distbelief/base/error.h"

namespace distbelief::data {

// What to throw where memory did not suffice for what lies at `place`, a file or a folder: names it with its
// bytes.
Error too_large_for_memory(const std::string& place);

// Calls `read`, whose memory follows what lies at `place`.
template <typename Read>
auto within_memory(const std::string& place, const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw too_large_for_memory(place);
  } catch (const std::length_error&) {
    throw too_large_for_memory(place);
  }
}

}  // namespace distbelief::data
