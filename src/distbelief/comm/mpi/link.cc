#include "distbelief/comm/mpi/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/idle_work.h"
#include "distbelief/comm/mpi/check.h"

namespace distbelief::comm {
namespace {

using Clock = std::chrono::steady_clock;

// MPI_Request is a pointer in Open MPI and an int in MPICH; both fit.
std::uint64_t pack(MPI_Request request) {
  static_assert(sizeof(MPI_Request) <= sizeof(std::uint64_t));
  std::uint64_t id = 0;
  std::memcpy(&id, &request, sizeof(request));
  return id;
}

// One thread at a time calls MPI (MPI_THREAD_SERIALIZED), over all links.
std::mutex& turn() {
  static std::mutex mutex;
  return mutex;
}

MPI_Request unpack(std::uint64_t id) {
  MPI_Request request;
  std::memcpy(&request, &id, sizeof(request));
  return request;
}

// The message may still arrive after the caller's memory is gone.
void give_up(MPI_Request& pending, const Link::Request& request) {
  if (request.receiving) MPI_Cancel(&pending);
  MPI_Request_free(&pending);
}

// An MPI count is an int: a larger message gets a datatype of exactly its size.
class Bytes {
 public:
  explicit Bytes(std::size_t bytes) {
    constexpr std::size_t kLimit = std::size_t{1} << 30;
    if (bytes <= kLimit) {
      count_ = static_cast<int>(bytes);
      return;
    }
    const int blocks = static_cast<int>(bytes / kLimit);
    const int lengths[] = {blocks, static_cast<int>(bytes % kLimit)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(blocks * kLimit)};
    MPI_Datatype large = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(static_cast<int>(kLimit), MPI_BYTE, &large), "MPI_Type_contiguous");
    const MPI_Datatype types[] = {large, MPI_BYTE};
    check_mpi(MPI_Type_create_struct(2, lengths, places, types, &type_), "MPI_Type_create_struct");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    MPI_Type_free(&large);
    count_ = 1;
  }
  ~Bytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace

MpiLink::MpiLink(MPI_Comm comm, std::chrono::nanoseconds deadline, std::vector<int> names)
    : Link(rank_in(comm), size_of(comm)),
      comm_(MPI_COMM_NULL),
      deadline_(deadline),
      names_(std::move(names)) {
  check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiLink::~MpiLink() {
  // MPI_Finalize frees the communicator: freeing it here would be a collective call in a destructor.
}

Link::Request MpiLink::start_send(const std::byte* data, std::size_t bytes, int to, int tag) {
  const std::lock_guard lock(turn());
  const Bytes message(bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data, message.count(), message.type(), to, tag, comm_, &request), "MPI_Isend");
  return {pack(request), to, false};
}

Link::Request MpiLink::start_receive(std::byte* data, std::size_t bytes, int from, int tag) {
  const std::lock_guard lock(turn());
  const Bytes message(bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data, message.count(), message.type(), from, tag, comm_, &request), "MPI_Irecv");
  return {pack(request), from, true};
}

void MpiLink::wait(std::span<Request> requests, const char* operation) {
  constexpr auto kSpin = std::chrono::microseconds(100);
  constexpr auto kNap = std::chrono::microseconds(50);
  std::vector<MPI_Request> pending;
  for (const Request& request : requests) pending.push_back(unpack(request.id));
  const auto start = Clock::now();
  for (;;) {
    int done = 0;
    {
      const std::lock_guard lock(turn());
      check_mpi(MPI_Testall(static_cast<int>(pending.size()), pending.data(), &done, MPI_STATUSES_IGNORE),
                operation);
    }
    if (done) return;
    const auto waited = Clock::now() - start;
    if (waited > deadline_) break;
    if (IdleWork::do_some()) continue;
    if (waited > kSpin) std::this_thread::sleep_for(kNap);
  }
  const std::lock_guard lock(turn());
  const Request* late = nullptr;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    int done = 0;
    MPI_Test(&pending[i], &done, MPI_STATUS_IGNORE);
    if (done) continue;
    if (late == nullptr) late = &requests[i];
    give_up(pending[i], requests[i]);
  }
  if (late != nullptr) time_out(*late, operation);
}

bool MpiLink::test(Request& request, const char* operation) {
  const std::lock_guard lock(turn());
  MPI_Request pending = unpack(request.id);
  int done = 0;
  check_mpi(MPI_Test(&pending, &done, MPI_STATUS_IGNORE), operation);
  if (done) return true;
  if (Clock::now() - request.begun <= deadline_) return false;
  give_up(pending, request);
  time_out(request, operation);
}

void MpiLink::time_out(const Request& request, const char* operation) const {
  const int peer = names_.empty() ? request.peer : names_[std::size_t(request.peer)];
  throw Error(ErrorCode::kTimeout,
              fmt::format("worker {} did not {} within {:.1f} s; is it alive, and its host reachable? "
                          "parallel.deadline_seconds sets how long to wait",
                          peer, request.receiving ? "send" : "receive",
                          std::chrono::duration<double>(deadline_).count()),
              {.rank = peer, .operation = operation, .step = -1});
}

}  // namespace distbelief::comm
