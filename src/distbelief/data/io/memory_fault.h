#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "distbelief/base/error.h"

namespace distbelief::data {

// The error when memory does not suffice for the data at `place`, a file or a folder; names its largest file
// and that file's size.
Error too_large_for_memory(const std::string& place);

// Calls `read`, whose memory grows with the data at `place`, and converts a failed allocation to that error.
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
