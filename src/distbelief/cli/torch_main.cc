#include "distbelief/cli/program.h"

// `distbelief-torch`: the whole program; `distbelief` executes it when a command needs torch.
int main(int argc, char** argv) { return distbelief::cli_main(argc, argv); }
