#include "distbelief/run/fault.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"

namespace distbelief::run {
namespace {

TEST(Fault, ReadsKindAndSettings) {
  const Fault fault = parse_fault("slow:rank=3,step=37,factor=2.5,generation=0");
  EXPECT_EQ(fault.kind, "slow");
  EXPECT_EQ(fault.rank, 3);
  EXPECT_EQ(fault.step, 37);
  EXPECT_EQ(fault.factor, 2.5);
  EXPECT_EQ(fault.generation, 0);
  EXPECT_EQ(fault.point, "step");
}

TEST(Fault, NamesWhatItDoesNotKnow) {
  for (const char* text : {"melt:rank=1", "kill:rnak=1", "kill:rank=x", "kill:point=nowhere", "kill:step=-1"})
    try {
      parse_fault(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos);
    }
}

TEST(Fault, RefusesWhatCannotHappen) {
  EXPECT_THROW(parse_fault("slow:factor=0"), Error);
  EXPECT_THROW(parse_fault("slow:factor=0.5"), Error);
  EXPECT_NO_THROW(parse_fault("slow:factor=1"));
  const WorkerCounts counts{.first = 2, .most = 4};
  EXPECT_THROW(parse_fault("kill:rank=2,step=1", counts), Error);
  EXPECT_EQ(parse_fault("kill:rank=1,step=1", counts).rank, 1);
  EXPECT_EQ(parse_fault("kill:rank=3,step=1,generation=2", counts).rank, 3) << "it may be scaled by then";
  EXPECT_THROW(parse_fault("kill:rank=4,step=1,generation=0", counts), Error);
}

TEST(Faults, ConcernOneWorkerOneGenerationOneStep) {
  Faults mine({parse_fault("throw:rank=1,step=5,generation=2")}, 1, 2);
  EXPECT_NO_THROW(mine.pass("step", 4));
  EXPECT_NO_THROW(mine.pass("mid-bucket", 5));
  EXPECT_THROW(mine.pass("step", 5), Error);
  EXPECT_NO_THROW(Faults({parse_fault("throw:rank=1,step=5")}, 1, 2).pass("step", 5));
  EXPECT_NO_THROW(Faults({parse_fault("throw:rank=1,step=5")}, 0, 1).pass("step", 5));
}

TEST(Faults, DriftHappensOnce) {
  const Faults faults({parse_fault("drift:rank=2,step=10")}, 2, 1);
  EXPECT_FALSE(faults.drifts(9));
  EXPECT_TRUE(faults.drifts(10));
  EXPECT_FALSE(faults.drifts(11));
}

TEST(Faults, FullDiskHasAnEnd) {
  const Faults faults({parse_fault("disk-full:step=10,steps=5")}, 0, 1);
  EXPECT_FALSE(faults.disk_is_full(9));
  EXPECT_TRUE(faults.disk_is_full(10));
  EXPECT_TRUE(faults.disk_is_full(14));
  EXPECT_FALSE(faults.disk_is_full(15));
}

}  // namespace
}  // namespace distbelief::run
