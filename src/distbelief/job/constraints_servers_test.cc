#include "distbelief/job/constraints_servers.h"

#include <gtest/gtest.h>

#include "distbelief/testing/job_verdict.h"

namespace distbelief::job {
namespace {

TEST(ServerMixes, ADecomposedModelHasAReplicaForEachSubNetwork) {
  const auto decomposed = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"parallel.sync=parameter_server", "parallel.mode=decomposed"});
    return testing::verdict(more);
  };
  EXPECT_EQ(decomposed({}), "fine");
  EXPECT_EQ(decomposed({"parallel.sub_networks=3", "parallel.workers=4", "parallel.cuts=[1,2]"}), "fine");
  EXPECT_EQ(decomposed({"parallel.sub_networks=3"}),
            "each of 3 sub-networks wants a replica, found 2; set parallel.workers (or --workers) to 3 or "
            "more, or parallel.sub_networks to 2");
  EXPECT_EQ(
      decomposed({"parallel.cuts=[1,2]"}),
      "parallel.cuts names the first block of every stage or sub-network but the first; 2 of these want "
      "1 cuts, found 2");
  for (const char* refused :
       {"parallel.sub_networks=1", "parallel.warm_start=9", "parallel.push_every=2", "parallel.fetch_every=2",
        "train.accumulate=2", "parallel.data=2", "parallel.lanes=2", "parallel.pipeline=2",
        "parallel.tensor=2", "parallel.threads=2", "parallel.delay_compensation=0.1",
        "train.init=model.safetensors", "train.optimizer=lbfgs", "train.optimizer=lamb", "train.target=0.9",
        "model.name=word2vec"})
    EXPECT_NE(decomposed({refused}), "fine") << refused;
  for (const char* refused : {"parallel.sub_networks=3", "parallel.window=2"}) {
    EXPECT_NE(testing::verdict({refused}), "fine");
    EXPECT_NE(testing::verdict({"parallel.sync=parameter_server", refused}), "fine");
  }
}

TEST(ServerMixes, ParameterServersGoWithSomeThingsOnly) {
  const auto served = [](std::vector<std::string> more) {
    more.insert(more.begin(), "parallel.sync=parameter_server");
    return testing::verdict(more);
  };
  EXPECT_EQ(served({}), "fine");
  EXPECT_EQ(served({"parallel.workers=5"}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync"}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.data=2"}), "fine");
  EXPECT_EQ(served({"parallel.mode=hybrid", "parallel.data=3"}), "fine");
  for (const char* mode : {"async", "bounded", "sync", "hybrid"})
    for (const char* way : {"parallel.threads=2", "parallel.pipeline=2", "parallel.tensor=2"})
      EXPECT_EQ(served({std::string("parallel.mode=") + mode, "parallel.workers=2", way}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.workers=3", "parallel.lanes=6"}), "fine");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.spare_replicas=1"}), "fine");
  EXPECT_EQ(served({"parallel.mode=bounded", "parallel.staleness=3", "parallel.staleness_aware=true"}),
            "fine");
  EXPECT_EQ(served({"parallel.push_every=2", "parallel.fetch_every=3", "parallel.delay_compensation=0.1"}),
            "fine");
  EXPECT_EQ(served({"parallel.mode=bounded", "parallel.fetch_every=2"}),
            "in mode \"bounded\" every step pushes and fetches, or parameters would be staler than "
            "parallel.staleness allows; set parallel.fetch_every = 1, or use mode \"async\"");
  EXPECT_EQ(served({"model.name=word2vec", "train.weight_decay=0.1"}),
            "rows of tables have Adagrad of their own: train.weight_decay would have no effect on those of "
            "model word2vec, which are nearly all of it; set it to 0");
  EXPECT_EQ(served({"parallel.mode=sync", "parallel.staleness_aware=true"}),
            "parallel.staleness_aware is for gradients of older parameters, which parallel.mode = \"async\" "
            "has, found \"sync\"; set that, or leave it out");
  for (const std::vector<std::string>& refused :
       {std::vector<std::string>{"parallel.mode=sync", "parallel.workers=2", "parallel.lanes=6"},
        {"parallel.mode=sync", "parallel.workers=2", "parallel.data=3"},
        {"parallel.mode=hybrid", "parallel.data=3", "parallel.lanes=2"},
        {"parallel.mode=sync", "train.clip_norm=1"},
        {"parallel.mode=sync", "parallel.push_every=2"},
        {"parallel.mode=sync", "parallel.spare_replicas=2"},
        {"parallel.mode=sync", "parallel.spare_replicas=1", "train.target=0.9"},
        {"parallel.mode=sync", "parallel.spare_replicas=1", "data.order=streams"},
        {"parallel.spare_replicas=1"},
        {"parallel.mode=bounded", "parallel.fetch_every=2"},
        {"parallel.mode=bounded", "parallel.push_every=2"},
        {"parallel.staleness=3"},
        {"parallel.mode=hybrid", "parallel.staleness=3"},
        {"parallel.mode=decomposed", "parallel.staleness=3"},
        {"parallel.mode=sync", "parallel.staleness=3"},
        {"parallel.mode=sync", "parallel.staleness_aware=true"},
        {"parallel.mode=sync", "parallel.delay_compensation=0.1"},
        {"train.optimizer=lamb"},
        {"train.target=0.9"},
        {"data.order=streams"},
        {"parallel.pipeline=2", "parallel.threads=2"},
        {"parallel.mode=sync", "parallel.workers=2", "parallel.pipeline=3"},
        {"parallel.threads=2", "parallel.lanes=1"},
        {"parallel.zero=2"},
        {"parallel.mesh=auto"},
        {"parallel.state_dir=/tmp"},
        {"model.name=word2vec", "parallel.staleness_aware=true"},
        {"model.name=word2vec", "parallel.delay_compensation=0.1"},
        {"model.name=click_through", "train.weight_decay=0.1"},
        {"model.name=click_through", "train.clip_norm=1"},
        {"model.name=word2vec", "parallel.threads=2"},
        {"model.name=word2vec", "parallel.pipeline=2"},
        {"train.optimizer=lbfgs", "parallel.mode=sandblaster", "parallel.pipeline=2"},
        {"train.optimizer=lbfgs", "parallel.mode=sandblaster", "parallel.threads=2"},
        {"elastic.auto=true"}})
    EXPECT_NE(served(refused), "fine") << refused.back();
  EXPECT_NE(testing::verdict({"parallel.servers=2"}).find("parallel.sync"), std::string::npos);
}

}  // namespace
}  // namespace distbelief::job
