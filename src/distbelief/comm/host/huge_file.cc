#include "distbelief/comm/host/huge_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace distbelief::comm {
namespace {

// Everything that the child needs, made before it starts: it shares its parent's memory and must not
// allocate.
struct Wish {
  bool own_user = false;  // a user namespace as well, for users other than root
  std::string uid_map, gid_map, bytes;
  int file = -1;
};

bool write_to(const char* path, std::string_view text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t written = write(file, text.data(), text.size());
  close(file);
  return written == ssize_t(text.size());
}

bool keep_own_name(const Wish& wish) {
  return write_to("/proc/self/setgroups", "deny") && write_to("/proc/self/uid_map", wish.uid_map) &&
         write_to("/proc/self/gid_map", wish.gid_map);
}

int mount_huge(const Wish& wish) {
  const int settings = fsopen("tmpfs", FSOPEN_CLOEXEC);
  if (settings < 0) return -1;
  const bool made = fsconfig(settings, FSCONFIG_SET_STRING, "huge", "within_size", 0) == 0 &&
                    fsconfig(settings, FSCONFIG_SET_STRING, "size", wish.bytes.c_str(), 0) == 0 &&
                    fsconfig(settings, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0;
  const int mounted = made ? fsmount(settings, FSMOUNT_CLOEXEC, 0) : -1;
  close(settings);
  return mounted;
}

int make_file(void* argument) {
  Wish& wish = *static_cast<Wish*>(argument);
  if (wish.own_user && !keep_own_name(wish)) return 0;
  const int mounted = mount_huge(wish);
  if (mounted < 0) return 0;
  wish.file = openat(mounted, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  close(mounted);
  return 0;
}

// Runs the child to its end while this thread waits, as posix_spawn does until exec.
void run_child(Wish& wish) {
  constexpr std::size_t kStack = 64 << 10;
  std::vector<std::byte> stack(kStack);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // No SIGCHLD at its end: the program's handler must see only the program's own children.
  const int flags = CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWNS | (wish.own_user ? CLONE_NEWUSER : 0);
  const int child = clone(make_file, stack.data() + stack.size(), flags, &wish);
  if (child > 0) waitpid(child, nullptr, __WCLONE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int open_huge_file(std::size_t bytes) {
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  Wish wish{.own_user = geteuid() != 0,
            .uid_map = fmt::format("{0} {0} 1", geteuid()),
            .gid_map = fmt::format("{0} {0} 1", getegid()),
            .bytes = std::to_string(whole)};
  run_child(wish);
  if (wish.file < 0) return -1;
  if (ftruncate(wish.file, off_t(bytes)) == 0) return wish.file;
  close(wish.file);
  return -1;
}

}  // namespace distbelief::comm
