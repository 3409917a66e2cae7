#pragma once

#include <string>
#include <string_view>
#include <vector>

// Instruction sets and what pins them. Results have the same bits only where every worker runs the same
// kernels, so a run uses one set, that of its weakest host.
namespace distbelief::cluster {

enum class Isa { kBaseline, kAvx2, kAvx512 };
std::string_view to_string(Isa isa);
Isa parse_isa(const std::string& name);  // throws Error(kBadInput)

// The best that this machine has and the libraries below us use.
Isa detect_isa();

struct Variable {
  std::string name;
  std::string value;
};

// Environment that pins the libraries below us to `isa` and one thread per worker. It must be there when
// the process starts: OpenBLAS and OpenMP read it as they are loaded. OpenBLAS's own choice is not to be
// trusted: 0.3.21 takes a processor newer than itself for a Prescott (SSE3) and is 5 times slower.
std::vector<Variable> pinned_environment(Isa isa);

}  // namespace distbelief::cluster
