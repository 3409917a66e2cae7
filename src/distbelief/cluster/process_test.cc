#include "distbelief/cluster/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distbelief::cluster {
namespace {

TEST(ProcessTest, KnowsWhoStartedWhom) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_EQ(parent_of(child), getpid());
  EXPECT_TRUE(descends(child, getpid()));
  EXPECT_FALSE(descends(getpid(), child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(parent_of(child), 0);
  EXPECT_FALSE(descends(child, getpid()));
}

TEST(ProcessTest, EndsAllThatAProcessHasStartedAlsoWhatWasStopped) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      setpgid(0, 0);  // as a launcher's workers do
      raise(SIGSTOP);
      _exit(0);
    }
    const bool told = write(ends[1], &grandchild, sizeof grandchild) == ssize_t(sizeof grandchild);
    int status = 0;
    waitpid(grandchild, &status, 0);
    _exit(told && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof grandchild), ssize_t(sizeof grandchild));
  EXPECT_TRUE(descends(grandchild, child));
  kill_descendants(child);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "it was to stay";
  EXPECT_EQ(WEXITSTATUS(status), SIGKILL);
  for (const int end : ends) close(end);
}

TEST(ProcessTest, FindsTheAncestorThatWasGivenArgumentsInARow) {
  const std::vector<std::string> own = arguments_of(getpid());
  ASSERT_FALSE(own.empty());
  const auto found_by_child = [](const std::vector<std::string>& arguments) {
    const pid_t child = fork();
    if (child == 0) _exit(ancestor_given(arguments) == getppid() ? 1 : ancestor_given(arguments) ? 2 : 0);
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(found_by_child(own), 1);
  EXPECT_EQ(found_by_child({own[0], "--run-dir", "/not/this/one"}), 0);
  EXPECT_NE(ancestor_given(own), getpid()) << "a process is not its own ancestor";
}

}  // namespace
}  // namespace distbelief::cluster
