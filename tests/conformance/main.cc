// One suite for every communicator. All ranks run the same tests in the same order; a test that fails on
// one rank fails on all, and the run ends there, because the ranks may be out of step afterwards.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <string>

#include "conformance/backends.h"
#include "conformance/operations.h"

namespace distbelief::conformance {
namespace {

class CollectiveTest : public ::testing::Test {
 public:
  explicit CollectiveTest(std::function<void()> body) : body_(std::move(body)) {}

  void TestBody() override {
    try {
      body_();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "threw: " << error.what();
    }
    int failed = HasFailure() ? 1 : 0, anywhere = 0;
    MPI_Allreduce(&failed, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(failed, anywhere) << "failed on another rank";
  }

 private:
  std::function<void()> body_;
};

// What ranks other than the first print: failures alone.
class FailurePrinter final : public ::testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                   result.summary());
  }

 private:
  int rank_;
};

void add_test(const std::string& suite, const char* name, std::function<void()> body) {
  ::testing::RegisterTest(suite.c_str(), name, nullptr, nullptr, __FILE__, __LINE__,
                          [body = std::move(body)]() -> CollectiveTest* { return new CollectiveTest(body); });
}

int run(World& world) {
  const auto backends = make_backends(world);
  for (const auto& backend : backends)
    for (const BackendTest& test : backend_tests())
      add_test(backend->name(), test.name, [&backend, &test] { test.body(*backend); });
  if (world.size() > 1)
    for (const BackendTest& test : large_tests())
      add_test("large", test.name, [&backends, &test] { test.body(*backends[0]); });
  for (const SilentRankTest& test : silent_rank_tests())
    if (test.applies(world)) add_test("silent_rank", test.name, [&test, &world] { test.body(world); });
  if (world.rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(world.rank()));
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace distbelief::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  testing::GTEST_FLAG(fail_fast) = true;
  distbelief::World world = distbelief::World::create();
  if (world.rank() == 0)
    std::printf("%s, %d ranks on %d hosts\n", world.mpi_version().c_str(), world.size(), world.hosts());
  const int result = distbelief::conformance::run(world);
  world.close();
  return result;
}
