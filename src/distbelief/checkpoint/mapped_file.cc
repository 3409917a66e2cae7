#include "distbelief/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::checkpoint {
namespace {

struct Mapping {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  int error = 0;
};

Mapping map_descriptor(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return {.error = errno};
  if (S_ISDIR(status.st_mode)) return {.error = EISDIR};
  if (!S_ISREG(status.st_mode)) return {.error = EINVAL};
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};  // an empty file cannot be mapped
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return {.error = errno};
  return {.data = static_cast<const std::byte*>(data), .size = size};
}

Mapping map(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {.error = errno};
  const Mapping mapping = map_descriptor(descriptor);
  close(descriptor);
  return mapping;
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Mapping mapping = map(path_);
  if (mapping.error != 0) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot read {}: {}; check the path and its permissions", path_.string(),
                            std::generic_category().message(mapping.error)));
  }
  data_ = mapping.data;
  size_ = mapping.size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace distbelief::checkpoint
