#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/cluster/isa.h"

namespace distbelief::cluster {

// The data that `distbelief launch` passes to a worker program about its run, through its environment.
struct Enrolment {
  std::string control;            // the supervisor's address
  int cohort = 1;                 // the launch that this worker belongs to
  std::string snapshots;          // name of the shared memory; empty: none
  std::filesystem::path run_dir;  // absolute
};
std::vector<Variable> variables_of(const Enrolment& enrolment);

// Reads it from this process's environment; empty if the process was not started that way. Throws
// Error(kBadInput) when it is malformed.
std::optional<Enrolment> own_enrolment();

}  // namespace distbelief::cluster
