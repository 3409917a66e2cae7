#pragma once

#include <string>
#include <string_view>
#include <vector>

// Instruction sets and the settings that select them. Results have the same bits only if every worker runs
// the same kernels, so a run uses one set, that of its weakest host.
namespace distbelief::cluster {

enum class Isa { kBaseline, kAvx2, kAvx512 };
std::string_view to_string(Isa isa);
Isa parse_isa(const std::string& name);  // throws Error(kBadInput)

// The best set that this machine has and the underlying libraries use.
Isa detect_isa();

struct Variable {
  std::string name;
  std::string value;
};

// Environment that restricts the underlying libraries to `isa` and one thread per worker. It must be set when
// the process starts, because OpenBLAS and OpenMP read it when they are loaded. OpenBLAS cannot be left to
// choose: 0.3.21 takes a processor newer than itself for a Prescott (SSE3) and is 5 times slower.
std::vector<Variable> pinned_environment(Isa isa);

}  // namespace distbelief::cluster
