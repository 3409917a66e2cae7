#include "distbelief/cluster/run_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <vector>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/host_name.h"

namespace distbelief::cluster {
namespace {

namespace fs = std::filesystem;
constexpr const char* kOwnerFile = "supervisor";
constexpr const char* kHalfMade = "-made";  // suffix of the name of snapshots that are being restored

fs::path users_folder() { return fs::temp_directory_path() / fmt::format("distbelief-{}", getuid()); }

// The start time tells a process from a later one with the same pid. Empty: it has ended, even if its parent
// has not waited for it yet.
std::string start_time(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size() || text[name_end + 2] == 'Z') return "";
  std::size_t at = name_end;
  for (int field = 0; field < 20 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

struct Owner {
  pid_t pid = 0;
  std::string since, host;
};

std::optional<Owner> owner_of(const fs::path& folder) {
  std::ifstream file(folder / kOwnerFile);
  Owner owner;
  if (!(file >> owner.pid >> owner.since >> owner.host) || owner.pid <= 0) return std::nullopt;
  return owner;
}

// The state of another host, which may share this folder, is unknown, so its processes count as alive.
bool lives(const Owner& owner) { return owner.host != host_name() || start_time(owner.pid) == owner.since; }

bool owner_lives(const fs::path& folder) {
  const std::optional<Owner> owner = owner_of(folder);
  return owner && lives(*owner);
}

// The file with the owner's name appears shortly after the folder, so a new folder without a name is left
// alone.
bool is_left_behind(const fs::path& folder) {
  constexpr std::chrono::minutes kForTheName{1};
  if (const std::optional<Owner> owner = owner_of(folder)) return !lives(*owner);
  std::error_code gone;
  const auto made = fs::last_write_time(folder, gone);
  return !gone && fs::file_time_type::clock::now() - made > kForTheName;
}

std::string shared_memory_prefix() { return fmt::format("distbelief-{}-", getuid()); }

// Clears snapshots of runs whose supervisor is on another host, or that were kept for a resume. Workers hold
// a lock as long as they live; a run that waits for hosts has none.
void clear_unheld_snapshots(const fs::path& own) {
  constexpr std::chrono::hours kLongAgo{24};
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(shared_memory_prefix()) || entry.path() == own) continue;
    if (fs::exists(users_folder() / name.substr(shared_memory_prefix().size()))) continue;
    const int file = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    struct stat status {};
    const bool old =
        fstat(file, &status) == 0 &&
        std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_mtime) > kLongAgo;
    if (old && flock(file, LOCK_EX | LOCK_NB) == 0) shm_unlink(("/" + name).c_str());
    close(file);
  }
}

}  // namespace

RunPlace place_of(const fs::path& run_dir) {
  const std::string path = fs::weakly_canonical(fs::absolute(run_dir)).string();
  const std::string name = fmt::format("{:016x}", xxh3(path.data(), path.size()));
  const fs::path folder = users_folder() / name;
  return {folder, folder / "control.sock", folder / "mpi", shared_memory_prefix() + name};
}

void require_short_place() {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  const std::string socket = place_of(".").socket.string();
  if (socket.size() <= kLongest) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("the path of the run's socket, {}, has {} bytes and {} are possible; set TMPDIR to a "
                  "shorter path",
                  socket, socket.size(), kLongest));
}

void make_place(const RunPlace& place) {
  if (fs::exists(place.folder) && owner_lives(place.folder))
    throw Error(ErrorCode::kUnavailable,
                "this run is being trained already; ask for it with distbelief status, or end it with stop");
  std::error_code error;
  fs::create_directories(place.launcher, error);
  const fs::path top = place.folder.parent_path();
  struct stat status {};
  if (error || lstat(top.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != getuid())
    throw Error(
        ErrorCode::kUnavailable,
        fmt::format("cannot use {} for the run's socket: it must be a folder of this user; remove it, or "
                    "set TMPDIR to another place",
                    top.string()));
  chmod(top.c_str(), 0700);
  const std::string owner = fmt::format("{} {} {}\n", getpid(), start_time(getpid()), host_name());
  const std::string_view text = owner;
  write_atomically(place.folder / kOwnerFile, {&text, 1});
}

void clear_folder(const RunPlace& place) {
  std::error_code ignored;  // the next command finds what cannot be removed
  fs::remove_all(place.folder / kCertificatesFolder, ignored);
  fs::remove_all(place.folder, ignored);
  fs::remove(place.folder.parent_path(), ignored);  // succeeds only when it is empty
}

void clear_far_place(const std::string& snapshots) {
  for (const char* end : {"", kHalfMade}) shm_unlink(("/" + snapshots + end).c_str());
}

void clear_place(const RunPlace& place) {
  clear_far_place(place.snapshots);
  clear_folder(place);
}

// Copies the file's bytes. A snapshot that is damaged on the way is not whole, and is not used.
bool put_aside(const std::string& snapshots, const fs::path& file) {
  const fs::path memory = fs::path("/dev/shm") / snapshots;
  std::error_code none;
  const std::uintmax_t bytes = fs::file_size(memory, none);
  if (none || bytes == 0) return false;
  std::ifstream from(memory, std::ios::binary);
  DurableFile to(file, {.bytes_needed = bytes, .survives = Survives::kKills, .at = {}});
  std::vector<char> some(std::size_t{4} << 20);
  while (from.read(some.data(), std::streamsize(some.size())) || from.gcount() > 0)
    to.write(some.data(), std::size_t(from.gcount()));
  if (to.bytes() != bytes)
    throw Error(ErrorCode::kUnavailable, fmt::format("cannot read the snapshots {}", memory.string()));
  to.commit();
  clear_far_place(snapshots);
  return true;
}

bool bring_back(const std::string& snapshots, const fs::path& file) {
  const fs::path memory = fs::path("/dev/shm") / snapshots, half = memory.string() + kHalfMade;
  if (!fs::exists(file) || fs::exists(memory)) return false;
  std::error_code error;
  fs::copy_file(file, half, fs::copy_options::overwrite_existing, error);
  if (!error) fs::permissions(half, fs::perms::owner_read | fs::perms::owner_write, error);
  if (!error) fs::rename(half, memory, error);
  if (!error) return true;
  std::error_code ignored;  // an error is being reported already
  fs::remove(half, ignored);
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot bring {} ({:.1f} MB) back into /dev/shm: {}; give it more room (mount -o "
                          "remount,size=...; containers: --shm-size)",
                          file.string(), double(fs::file_size(file)) / 1e6, error.message()));
}

bool has_supervisor(const RunPlace& place) { return owner_lives(place.folder); }

bool is_abandoned(const RunPlace& place) { return fs::exists(place.folder) && !owner_lives(place.folder); }

void clear_abandoned(const RunPlace& own) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(users_folder(), ignored)) {
    if (entry.path() == own.folder || !is_left_behind(entry.path())) continue;
    clear_place({entry.path(), {}, {}, shared_memory_prefix() + entry.path().filename().string()});
  }
  clear_unheld_snapshots(fs::path("/dev/shm") / own.snapshots);
}

}  // namespace distbelief::cluster
