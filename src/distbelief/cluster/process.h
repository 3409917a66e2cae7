#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

// What the kernel says of processes of this machine. All are snapshots: a process may end any time.
namespace distbelief::cluster {

pid_t parent_of(pid_t pid);  // 0: there is no such process
std::vector<std::string> arguments_of(pid_t pid);

// Whether a process was started by another, directly or not.
bool descends(pid_t pid, pid_t ancestor);

// Ends all that a process has started, directly or not, at once; not itself.
void kill_descendants(pid_t ancestor);

// The nearest process above this one, but for the first of all, that was given these arguments in a row:
// that is how a worker knows its launcher, which was given the worker's command.
std::optional<pid_t> ancestor_given(const std::vector<std::string>& arguments);

}  // namespace distbelief::cluster
