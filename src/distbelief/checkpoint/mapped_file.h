#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace distbelief::checkpoint {

// A whole file mapped for reading; owns the mapping. Any thread may read, provided that no process truncates
// the file meanwhile: checkpoint files are replaced by renaming, never written in place.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);  // throws Error(kUnavailable)
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace distbelief::checkpoint
