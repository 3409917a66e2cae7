#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/cluster/isa.h"

namespace distbelief::cluster {

// What `distbelief launch` tells a program about the run that it is a worker of, through its environment.
struct Enrolment {
  std::string control;            // where the supervisor listens
  int cohort = 1;                 // which of its launches this worker belongs to
  std::string snapshots;          // name of the memory; empty: none
  std::filesystem::path run_dir;  // absolute
};
std::vector<Variable> variables_of(const Enrolment& enrolment);

// Of this process; nothing when it was not started that way. Throws Error(kBadInput) when it makes no sense.
std::optional<Enrolment> own_enrolment();

}  // namespace distbelief::cluster
