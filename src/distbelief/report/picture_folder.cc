#include "distbelief/report/picture_folder.h"

#include <algorithm>
#include <string_view>
#include <system_error>

namespace distbelief::report {
namespace {

std::string stem_of(const std::string& input) {
  std::string stem = std::filesystem::path(input).filename().string();
  for (const std::string_view ending : {".png", ".jpg", ".jpeg", ".ppm", ".pgm"}) {
    if (!stem.ends_with(ending) || stem.size() == ending.size()) continue;
    stem.resize(stem.size() - ending.size());
    break;
  }
  std::replace(stem.begin(), stem.end(), ':', '-');
  return stem;
}

}  // namespace

std::filesystem::path PictureFolder::add(const std::string& input, const Picture& picture) {
  const std::string stem = stem_of(input);
  std::string name = stem + ".png";
  for (int number = 2; !taken_.insert(name).second; ++number)
    name = stem + "-" + std::to_string(number) + ".png";
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);  // a failure shows when the file is written
  write_png(folder_ / name, picture);
  return folder_ / name;
}

}  // namespace distbelief::report
