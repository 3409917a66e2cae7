#include "distbelief/cluster/enrolment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

class EnrolmentTest : public ::testing::Test {
 protected:
  void set(const Enrolment& enrolment) {
    for (const Variable& variable : variables_of(enrolment))
      setenv(variable.name.c_str(), variable.value.c_str(), 1);
  }
  void TearDown() override {
    for (const Variable& variable : variables_of({})) unsetenv(variable.name.c_str());
  }
};

TEST_F(EnrolmentTest, IsReadAsItWasWritten) {
  set({.control = "unix:/a/b.sock", .cohort = 12, .snapshots = "name", .run_dir = "/runs/x y"});
  const auto found = own_enrolment();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->control, "unix:/a/b.sock");
  EXPECT_EQ(found->cohort, 12);
  EXPECT_EQ(found->snapshots, "name");
  EXPECT_EQ(found->run_dir, "/runs/x y");
}

TEST_F(EnrolmentTest, IsNoneWithoutASupervisor) { EXPECT_FALSE(own_enrolment()); }

TEST_F(EnrolmentTest, IsRefusedWhenItMakesNoSense) {
  set({.control = "unix:/a/b.sock", .cohort = 1, .snapshots = "", .run_dir = "/runs/x"});
  for (const char* cohort : {"", "0", "-1", "two", "2x"}) {
    setenv("DISTBELIEF_COHORT", cohort, 1);
    EXPECT_THROW(own_enrolment(), Error) << cohort;
  }
  set({.control = "unix:/a/b.sock", .cohort = 1, .snapshots = "", .run_dir = ""});
  EXPECT_THROW(own_enrolment(), Error);
}

}  // namespace
}  // namespace distbelief::cluster
