#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "distbelief/report/picture.h"

namespace distbelief::report {

// A folder of output pictures named after their inputs: photo.png, test-7.png, rows.csv-2.png. Not
// thread-safe; add() blocks until the file is written.
class PictureFolder {
 public:
  explicit PictureFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Makes the folder when it is missing. Replaces files from before this object, but not its own: two inputs
  // with one name give photo.png and photo-2.png. Throws Error(kUnavailable) with file and reason.
  std::filesystem::path add(const std::string& input, const Picture& picture);

 private:
  std::filesystem::path folder_;
  std::set<std::string> taken_;
};

}  // namespace distbelief::report
