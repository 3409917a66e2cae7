#include "distbelief/cli/program.h"

#include "distbelief/cli/command_line.h"

// Present only in a program that uses jemalloc, as this one does.
extern "C" int mallctl(const char* name, void* old, std::size_t* old_size, void* value,
                       std::size_t value_size) __attribute__((weak));

namespace distbelief::cli {

void release_unused_memory() {
  constexpr const char* kPurgeAllArenas = "arena.4096.purge";  // MALLCTL_ARENAS_ALL
  if (mallctl != nullptr) mallctl(kPurgeAllArenas, nullptr, nullptr, nullptr, 0);
}

}  // namespace distbelief::cli

int distbelief::cli_main(int argc, char** argv) {
  using namespace distbelief::cli;
  // The order of `distbelief --help`.
  static constexpr AddCommand kCommands[] = {add_init,          add_check,      add_train,
                                             add_resume,        add_launch,     add_models,
                                             add_datasets,      add_data,       add_eval,
                                             add_predict,       add_generate,   add_nearest,
                                             add_export,        add_report,     add_control,
                                             add_plan,          add_audit,      add_servers,
                                             add_certs,         add_bench,      add_worker,
                                             add_server,        add_measure,    add_host,
                                             add_run_as_worker, add_clear_host, add_restore_snapshots};
  return run_command_line(argc, argv, kCommands);
}
