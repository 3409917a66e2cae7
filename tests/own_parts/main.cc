// The whole program with a mode, a task, a data set and an optimizer of one's own.
#include "distbelief/cli/program.h"
#include "parts.h"

int main(int argc, char** argv) {
  register_own_mode();
  register_own_task();
  register_own_data_set();
  register_own_optimizer();
  return distbelief::cli_main(argc, argv);
}
