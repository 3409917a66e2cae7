#include "distbelief/tasks/ctc_path.h"

#include <gtest/gtest.h>

namespace distbelief::tasks {
namespace {

using Labels = std::vector<std::int64_t>;

TEST(CtcPath, ALabelIsSaidOnceUnlessABlankParts) {
  EXPECT_EQ(labels_of(Labels{0, 3, 3, 0, 3, 1, 1, 2, 0, 0}), (Labels{3, 3, 1, 2}));
  EXPECT_EQ(labels_of(Labels{4, 4, 4}), (Labels{4}));
  EXPECT_EQ(labels_of(Labels{0, 0}), Labels{});
  EXPECT_EQ(labels_of({}), Labels{});
}

}  // namespace
}  // namespace distbelief::tasks
