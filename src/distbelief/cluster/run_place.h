#pragma once

#include <filesystem>
#include <string>

namespace distbelief::cluster {

// Where a run keeps what is not in its run folder: names made from the folder's path, so that every command
// finds them. All of it is gone when the run has ended; what a crash left is removed by the next command.
struct RunPlace {
  std::filesystem::path folder;    // private to the user: socket, certificates, the launcher's files
  std::filesystem::path socket;    // of the supervisor
  std::filesystem::path launcher;  // the launcher's session files
  std::string snapshots;           // name of the memory
};
RunPlace place_of(const std::filesystem::path& run_dir);
inline constexpr const char* kCertificatesFolder = "certs";  // in the folder

// Throws Error(kBadInput) when TMPDIR makes the socket's path longer than the system takes. Before anything
// else.
void require_short_place();
// Makes the folder. Throws Error(kUnavailable) when somebody else's is in the way, or a supervisor lives
// there.
void make_place(const RunPlace& place);
// Removes everything, first what weighs most: memory, then keys. Whoever does it may be killed in between.
void clear_place(const RunPlace& place);
// Removes all but the snapshots, from which `resume` can go on.
void clear_folder(const RunPlace& place);
// Removes what a run has on a host that is not its supervisor's: the memory of this name.
void clear_far_place(const std::string& snapshots);
// The snapshots of a run that ended before it could save, in its folder: nothing stays in memory. It is there
// until something newer was saved.
inline constexpr const char* kKeptSnapshots = "snapshots.memory";
inline constexpr const char* kBroughtBack = "brought back";  // what a host answers that did so
// Moves this machine's snapshots of that name to the file. false: there are none. Throws Error(kUnavailable),
// with the snapshots where they were, when there is no room.
bool put_aside(const std::string& snapshots, const std::filesystem::path& file);
// Copies what was put aside back into memory. false: it is there already, and newer. Throws
// Error(kUnavailable).
bool bring_back(const std::string& snapshots, const std::filesystem::path& file);
// Whether its supervisor lives, or may: of another machine's nothing can be known.
bool has_supervisor(const RunPlace& place);
// Whether its supervisor, of this machine, is gone without having cleared it.
bool is_abandoned(const RunPlace& place);
// Removes what other runs have left whose supervisor is gone. Called by commands that start something.
void clear_abandoned(const RunPlace& own);

}  // namespace distbelief::cluster
