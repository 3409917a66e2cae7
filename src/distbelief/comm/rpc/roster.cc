#include "distbelief/comm/rpc/roster.h"

#include <fmt/format.h>

#include "distbelief/comm/rpc/worker_stream.h"

namespace distbelief::comm {
namespace {

const grpc::Status kClosed(grpc::StatusCode::UNAVAILABLE, "the supervisor has ended");

}  // namespace

void Roster::open(WorkerStream& stream) {
  const std::lock_guard lock(mutex_);
  members_.try_emplace(&stream);
  if (closed_) stream.finish_after_orders(kClosed);
}

grpc::Status Roster::enter(WorkerStream& stream, const WorkerReport& report) {
  const std::lock_guard lock(mutex_);
  if (closed_) return kClosed;
  Member& member = members_.at(&stream);
  const Key key(report.generation, report.rank);
  if (!member.key) {
    if (!by_key_.try_emplace(key, &stream).second)
      return {grpc::StatusCode::ALREADY_EXISTS,
              fmt::format("worker {} of generation {} is connected already", report.rank, report.generation)};
    member.key = key;
  } else if (*member.key != key) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            fmt::format("worker {} of generation {} reported as worker {} of generation {}",
                        member.key->second, member.key->first, report.rank, report.generation)};
  }
  if (report.state == "ended") member.ended = true;
  return grpc::Status::OK;
}

grpc::Status Roster::report(WorkerStream& stream, const WorkerReport& report) {
  grpc::Status status = enter(stream, report);
  if (status.ok()) handler_.report(report);
  return status;
}

void Roster::leave(WorkerStream& stream) {
  std::optional<Key> lost;
  {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find(&stream);
    if (found == members_.end()) return;
    if (found->second.key) by_key_.erase(*found->second.key);
    if (!found->second.ended && !closed_) lost = found->second.key;
    members_.erase(found);
  }
  if (lost) handler_.lost(lost->first, lost->second);
}

bool Roster::order(int generation, int rank, const wire::Order& order) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find({generation, rank});
  if (found == by_key_.end() || closed_) return false;
  found->second->send(order);
  return true;
}

void Roster::heartbeat() {
  const std::lock_guard lock(mutex_);
  for (auto& [stream, member] : members_) stream->heartbeat();
}

void Roster::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [stream, member] : members_) stream->finish_after_orders(kClosed);
}

}  // namespace distbelief::comm
