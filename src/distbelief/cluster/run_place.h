#pragma once

#include <filesystem>
#include <string>

namespace distbelief::cluster {

// The locations of a run's data outside its run folder. Names derive from the folder's path, so that every
// command finds them. Everything is removed when the run ends; the next command removes what a crash left.
struct RunPlace {
  std::filesystem::path folder;    // private to the user: socket, certificates, the launcher's files
  std::filesystem::path socket;    // of the supervisor
  std::filesystem::path launcher;  // the launcher's session files
  std::string snapshots;           // name of the shared memory
};
RunPlace place_of(const std::filesystem::path& run_dir);
inline constexpr const char* kCertificatesFolder = "certs";  // in `folder`

// Throws Error(kBadInput) when TMPDIR makes the socket's path longer than the system allows. Call it first.
void require_short_place();
// Creates the folder. Throws Error(kUnavailable) when a foreign one is in the way, or a supervisor is running
// there.
void make_place(const RunPlace& place);
// Removes everything in the order of importance (memory, then keys), because the caller may be killed in
// between.
void clear_place(const RunPlace& place);
// Removes everything but the snapshots, from which `resume` can continue.
void clear_folder(const RunPlace& place);
// Removes a run's shared memory of this name on a host other than its supervisor's.
void clear_far_place(const std::string& snapshots);
// File in the run folder for the snapshots of a run that ended before it could save; nothing stays in memory.
// It is kept until something newer is saved.
inline constexpr const char* kKeptSnapshots = "snapshots.memory";
inline constexpr const char* kBroughtBack = "brought back";  // answer of a host that has restored them
// Moves this machine's snapshots of that name to the file. Returns false if there are none. Throws
// Error(kUnavailable) when there is no room, and leaves the snapshots in place.
bool put_aside(const std::string& snapshots, const std::filesystem::path& file);
// Copies snapshots from the file back into memory. Returns false if there is no file, or if memory holds
// snapshots already, which are newer. Throws Error(kUnavailable).
bool bring_back(const std::string& snapshots, const std::filesystem::path& file);
// Whether its supervisor is running, or may be: on another machine this is unknown.
bool has_supervisor(const RunPlace& place);
// Whether its supervisor, on this machine, is gone without clean-up.
bool is_abandoned(const RunPlace& place);
// Removes the remains of other runs whose supervisor is gone. Called by commands that start processes.
void clear_abandoned(const RunPlace& own);

}  // namespace distbelief::cluster
