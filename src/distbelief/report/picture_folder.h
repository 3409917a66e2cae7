#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "distbelief/report/picture.h"

namespace distbelief::report {

// Where pictures go that answer to inputs: photo.png, test-7.png, rows.csv-2.png, after the inputs' names.
// Not thread-safe; adding blocks until the file is written.
class PictureFolder {
 public:
  explicit PictureFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Makes the folder when it is not there. A file of an earlier time is replaced, one of this time is not:
  // two inputs of one name get photo.png and photo-2.png. Throws Error(kUnavailable) with file and reason.
  std::filesystem::path add(const std::string& input, const Picture& picture);

 private:
  std::filesystem::path folder_;
  std::set<std::string> taken_;
};

}  // namespace distbelief::report
