#include "distbelief/report/picture_folder.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::report {
namespace {

const Picture kDot{.width = 1, .height = 1, .channels = 1, .bytes = {7}};

TEST(PictureFolder, NamesPicturesAfterTheirInputs) {
  const ScratchFolder scratch;
  PictureFolder folder(scratch.path() / "new" / "folder");
  for (const auto& [input, name] : {std::pair{"a/photo.jpeg", "photo.png"},
                                    {"test:7", "test-7.png"},
                                    {"rows.csv:2", "rows.csv-2.png"},
                                    {"b/photo.png", "photo-2.png"},
                                    {"photo.png", "photo-3.png"},
                                    {".png", ".png.png"}}) {
    EXPECT_EQ(folder.add(input, kDot), scratch.path() / "new" / "folder" / name) << input;
    EXPECT_TRUE(std::filesystem::exists(scratch.path() / "new" / "folder" / name)) << input;
  }
}

TEST(PictureFolder, SaysWhatFileCannotBeWritten) {
  const ScratchFolder scratch;
  write_text(scratch.path() / "file", "no folder");
  PictureFolder folder(scratch.path() / "file");
  try {
    folder.add("photo.png", kDot);
    FAIL() << "a picture below a file";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("file/photo.png"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace distbelief::report
