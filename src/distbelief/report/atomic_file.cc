#include "distbelief/report/atomic_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "distbelief/base/error.h"

namespace distbelief::report {
namespace {

// Zero, or what went wrong.
int write_pieces(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return errno;
  int error = 0;
  for (std::string_view piece : pieces) {
    if (error == 0 && std::fwrite(piece.data(), 1, piece.size(), file) != piece.size()) error = errno;
  }
  if (std::fclose(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void write_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  const auto temporary = path.parent_path() / fmt::format(".tmp-{}-{}", path.filename().string(), getpid());
  int error = write_pieces(temporary, pieces);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(temporary.c_str());
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot write {}: {}; make room, check the permissions, or choose another folder",
                          path.string(), std::generic_category().message(error)));
}

}  // namespace distbelief::report
