#pragma once

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>

#include "distbelief/base/error.h"

namespace distbelief {

// A temporary folder that its owner removes. Throws Error(kUnavailable) when it cannot be made.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "distbelief-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::kUnavailable, "cannot make a folder like " + name + ": is there room?");
    path_ = name;
  }
  // Retries, because a launcher's daemon may be removing files of its own here at the same time.
  ~ScratchFolder() {
    constexpr int kTries = 20;
    std::error_code error;
    for (int i = 0; i < kTries && std::filesystem::exists(path_, error); ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::filesystem::remove_all(path_, error);
    }
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

// For tests: a file's whole text.
inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace distbelief
