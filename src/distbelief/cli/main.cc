#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "distbelief/cli/command_line.h"

// `distbelief` contains the commands that need no network, among them the parameter servers; everything else
// is in distbelief-torch beside it. libtorch with its 300 libraries takes most of a second to load and 150
// MB.
int main(int argc, char** argv) {
  using namespace distbelief::cli;
  constexpr AddCommand kQuick[] = {add_control,    add_launch,           add_init, add_data,
                                   add_certs,      add_server,           add_host, add_run_as_worker,
                                   add_clear_host, add_restore_snapshots};
  if (argc > 1 && has_command(kQuick, argv[1])) return run_command_line(argc, argv, kQuick);
  const std::string whole = torch_path();
  execv(whole.c_str(), argv);
  fmt::print(stderr, "distbelief: cannot run {}, which belongs beside this program: {}\n", whole,
             std::strerror(errno));
  return 1;
}
