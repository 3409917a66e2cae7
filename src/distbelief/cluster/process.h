#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

// The kernel's data about processes of this machine. All results are snapshots: a process may end any time.
namespace distbelief::cluster {

pid_t parent_of(pid_t pid);  // 0: no such process
std::vector<std::string> arguments_of(pid_t pid);

// Whether a process is a direct or indirect child of another.
bool descends(pid_t pid, pid_t ancestor);

// Kills all direct and indirect children of a process immediately, but not the process itself.
void kill_descendants(pid_t ancestor);

// The nearest ancestor of this process (except the first process) whose arguments contain these in a row. A
// worker finds its launcher this way, because the launcher's arguments contain the worker's command.
std::optional<pid_t> ancestor_given(const std::vector<std::string>& arguments);

}  // namespace distbelief::cluster
