#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/comm/host/segment.h"

// Hidden commands that a supervisor starts on the hosts of a run.
namespace distbelief::cli {

namespace fs = std::filesystem;

// Makes a user's own program die with its launcher as well: the kernel keeps this setting through exec.
void add_run_as_worker(CLI::App& app, const Invocation&, Run& run) {
  auto program = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("run-as-worker", "run a program as a worker of launch")->group(kHiddenGroup);
  command->add_option("program", *program)->required();
  command->callback([=, &run] {
    run = [=] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == 1) return 1;  // the launcher is gone already
      std::vector<char*> arguments;
      for (std::string& part : *program) arguments.push_back(part.data());
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      throw Error(ErrorCode::kBadInput,
                  fmt::format("cannot run {}: {}", program->front(), std::strerror(errno)));
      return 1;
    };
  });
}

void add_clear_host(CLI::App& app, const Invocation&, Run& run) {
  auto snapshots = std::make_shared<std::string>(), kept = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("clear-host", "remove the snapshots of a run that has ended")->group(kHiddenGroup);
  command->add_option("snapshots", *snapshots)->required();
  command->add_option("--keep", *kept, "file that the snapshots are saved to first");
  command->callback([=, &run] {
    run = [=] {
      const bool is_there = kept->empty() || cluster::put_aside(*snapshots, *kept);
      cluster::clear_far_place(*snapshots);
      return is_there ? 0 : 1;
    };
  });
}

void add_restore_snapshots(CLI::App& app, const Invocation&, Run& run) {
  auto snapshots = std::make_shared<std::string>(), file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("restore-snapshots", "restore the snapshots of a run from a file")
                          ->group(kHiddenGroup);
  command->add_option("snapshots", *snapshots)->required();
  command->add_option("file", *file)->required();
  command->callback([=, &run] {
    run = [=] {
      if (cluster::bring_back(*snapshots, *file)) fmt::print("{}\n", cluster::kBroughtBack);
      return fs::exists(fs::path("/dev/shm") / *snapshots) ? 0 : 1;
    };
  });
}

void add_host(CLI::App& app, const Invocation&, Run& run) {
  CLI::App* command = app.add_subcommand("host", "print what this host offers to a run")->group(kHiddenGroup);
  command->callback([&run] {
    run = [] {
      fmt::print("{}\n", to_string(cluster::HostAnswer{.isa = cluster::pinned_isa(),
                                                       .shared_memory_free = comm::shared_memory_free()}));
      return 0;
    };
  });
}

}  // namespace distbelief::cli
