#include "distbelief/job/job_reference.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "distbelief/job/job_check.h"

namespace distbelief::job {
namespace {

std::string documentation() {
  std::ifstream file(DISTBELIEF_SOURCE_DIR "/docs/reference/job_file.md");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The text of each block that begins with a line starting with `begin` and ends before one starting with
// `end`.
std::vector<std::string> blocks(const std::string& text, const std::string& begin, const std::string& end) {
  std::vector<std::string> found;
  for (auto at = text.find("\n" + begin); at != std::string::npos; at = text.find("\n" + begin, at)) {
    const auto first = text.find('\n', at + 1) + 1;
    const auto last = text.find("\n" + end, first - 1);
    if (last == std::string::npos) break;
    found.push_back(text.substr(first, last + 1 - first));
    at = last + 1;
  }
  return found;
}

TEST(JobFileReference, IsTheTableInTheDocumentation) {
  const auto tables = blocks(documentation(), "<!-- keys: begin", "<!-- keys: end");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0], job_file_reference()) << "docs/reference/job_file.md: replace the table by this:\n"
                                             << job_file_reference();
}

TEST(JobFileReference, ExamplesInTheDocumentationAreFine) {
  const auto examples = blocks(documentation(), "```toml", "```");
  ASSERT_EQ(examples.size(), 2u);
  for (const std::string& example : examples)
    EXPECT_NO_THROW(validate(parse_job(example, "docs/reference/job_file.md"))) << example;
}

TEST(JobFileReference, StatesTypeRangeDefaultAndMeaning) {
  const std::string text = job_file_reference();
  EXPECT_NE(
      text.find("\n| `train.lr` | number | greater than 0 | `0.05` | learning rate, after the warm-up |\n"),
      std::string::npos);
  EXPECT_NE(text.find("\n| `data.augment` | list of strings | `pad_crop`, `flip` | `[]` | "),
            std::string::npos);
}

}  // namespace
}  // namespace distbelief::job
