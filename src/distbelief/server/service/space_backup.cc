#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/client/under_way.h"
#include "distbelief/server/service/space.h"
#include "distbelief/server/service/space_requests.h"

// The job state between servers: a primary's updates to its backups, and their effect there.
namespace distbelief::server {

using comm::StoreRequest;
using Kind = comm::StoreRequest::Kind;

namespace {

constexpr int kSlicesUnderWay = 4;

}  // namespace

// Calls `done` when all have it.
void Space::tell_all(const std::vector<std::shared_ptr<BackupLink>>& links, const BackupLink::Item& item,
                     const std::function<void()>& done) {
  if (links.empty()) return done();
  const auto left = std::make_shared<std::atomic<std::size_t>>(links.size());
  for (const auto& link : links) {
    BackupLink::Item one = item;
    one.done = [left, done] {
      if (--*left == 0) done();
    };
    link->hand_over(std::move(one));
  }
}

// The caller holds the slice's lock, so that backups get updates in their order. A repeated update only waits
// for those before it.
void Space::hand_over(Held& held, const Gradient& gradient, const Slice::Applied& applied,
                      std::shared_ptr<const void> owner, const std::function<void()>& done) {
  const std::shared_ptr<const Roles> now = roles();
  const auto links = now->backups(now->map.part_of(held.slice.number()), held.filled);
  BackupLink::Item item;
  if (!applied.repeated && !links.empty()) {
    item.header =
        comm::encode(StoreRequest{.kind = Kind::kReplicate,
                                  .replica = gradient.replica,
                                  .slice = held.slice.number(),
                                  .ticket = gradient.ticket,
                                  .base = gradient.base,
                                  .lr = applied.lr,
                                  .untouched = {gradient.untouched.begin(), gradient.untouched.end()},
                                  .job = options_.spec.job,
                                  .version = applied.version,
                                  .epoch = now->map.epoch,
                                  .replicas = {gradient.of.begin(), gradient.of.end()}});
    const float* values = gradient.values;
    item.owner = std::move(owner);
    if (applied.direction != gradient.values) {  // compensated: the next update overwrites it
      const auto copy =
          std::make_shared<std::vector<float>>(applied.direction, applied.direction + held.slice.size());
      values = copy->data();
      item.owner = copy;
    }
    item.payload = std::as_bytes(std::span(values, held.slice.size()));
  }
  tell_all(links, item, done);
}

void Space::hand_over_state(Held& held, const std::vector<std::shared_ptr<BackupLink>>& links,
                            const std::function<void()>& done) {
  if (links.empty()) return done();
  const auto state = std::make_shared<Slice::State>(held.slice.state());
  for (std::size_t piece = 0; piece < state->arrays.size(); ++piece) {
    const BackupLink::Item item{
        .header = comm::encode(StoreRequest{.kind = Kind::kInstall,
                                            .slice = held.slice.number(),
                                            .done = state->tickets_above,
                                            .job = options_.spec.job,
                                            .version = state->version,
                                            .epoch = roles()->map.epoch,
                                            .piece = std::int32_t(piece),
                                            .counts = state->counts,
                                            .below = state->tickets_below,
                                            .pieces = std::int32_t(state->arrays.size())}),
        .payload = std::as_bytes(std::span(state->arrays[piece])),
        .owner = state};
    tell_all(
        links, item, piece + 1 == state->arrays.size() ? done : [] {});
  }
}

// A few slices at a time; each copy is a consistent snapshot.
void Space::fill(int newcomer) {
  UnderWay under_way(kSlicesUnderWay);
  for (std::size_t i = 0; i < slices_.size(); ++i)
    if (Held* const slice = known(i)) {
      under_way.begin();
      fill_slice(*slice, newcomer, [&] { under_way.end(); });
    }
  under_way.wait_for_all();
  for (const auto& table : tables_) table->fill(newcomer);
  fill_desk(newcomer);
}

// Calls `done` when the newcomer has the slice, or need not have it.
void Space::fill_slice(Held& held, int newcomer, const std::function<void()>& done) {
  const std::lock_guard lock(held.mutex);
  const std::shared_ptr<const Roles> now = roles();
  const ServerMap::Part& part = now->map.part_of(held.slice.number());
  const auto link = now->links.find(newcomer);
  const bool is_wanted = now->is_primary(part) && part.filling == newcomer && held.filled != newcomer;
  if (!is_wanted || link == now->links.end()) return done();
  held.filled = newcomer;
  if (!held.slice.is_filled()) return done();
  hand_over_state(held, {link->second}, done);
}

// Whether to accept the update; the caller holds the slice's lock. Not when the slice's primary sends it to a
// server that it still takes for a backup. An update of a former primary is refused: it must not be
// acknowledged.
bool Space::takes(const StoreRequest& message, const Request& request) const {
  const std::shared_ptr<const Roles> now = roles();
  const ServerMap::Part& part = now->map.part_of(message.slice);
  if (now->is_primary(part))
    throw Error(ErrorCode::kAborted, fmt::format("slice {} of job {} is this server's own by map {}",
                                                 message.slice, options_.spec.job, now->map.epoch));
  require_sender(message, request, part);
  return now->takes_from(request.peer().name, message.epoch, part);
}

void Space::require_sender(const StoreRequest& message, const Request& request,
                           const ServerMap::Part& part) const {
  const std::shared_ptr<const Roles> now = roles();
  if (now->is_outdated(request.peer().name, message.epoch, part))
    throw Error(
        ErrorCode::kAborted,
        fmt::format("{} goes by map {}; by map {} what it sends of job {} is server {}'s",
                    request.peer().name, message.epoch, now->map.epoch, options_.spec.job, part.primary));
}

// Between servers values need not be finite: a run may come to such numbers by itself.
void Space::require_size(const Held& held, const StoreRequest& message, const Request& request) const {
  if (request.payload().size() != held.slice.size() * sizeof(float))
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {} has {} bytes, found {}", message.slice, options_.spec.job,
                            held.slice.size() * sizeof(float), request.payload().size()));
}

void Space::replicate(const StoreRequest& message, Request& request) {
  Held& target = held(message.slice);
  if (message.kind == Kind::kReplicate) require_size(target, message, request);
  const std::lock_guard lock(target.mutex);
  if (!takes(message, request)) return answer(request, {.version = message.version});
  target.early.insert_or_assign(message.version, Waiting{.message = message, .request = std::move(request)});
  apply_early(target);
}

void Space::apply_next(Held& held, Waiting& waiting) {
  if (options_.spec.vectors > 0) return replay(held, waiting);
  held.slice.apply({.ticket = waiting.message.ticket,
                    .replica = waiting.message.replica,
                    .base = waiting.message.base,
                    .lr = waiting.message.lr,
                    .untouched = waiting.message.untouched,
                    .values = floats_in(waiting.request).data(),
                    .of = waiting.message.replicas,
                    .is_final = true},
                   nullptr);
}

// Applies the updates whose turn has come. Messages of one connection come in any order.
void Space::apply_early(Held& held) {
  while (!held.early.empty() && held.slice.is_filled()) {
    auto first = held.early.begin();
    const std::int64_t version = held.slice.version();
    if (first->first > version + 1) return;
    Waiting waiting = std::move(first->second);
    const bool is_next = first->first == version + 1;
    held.early.erase(first);
    try {
      if (is_next) apply_next(held, waiting);
    } catch (const std::exception& error) {  // a full disk: the primary must not wait for it
      waiting.request.refuse(ErrorCode::kInternal, error.what());
      return;
    }
    answer(waiting.request, {.version = held.slice.version()});
  }
}

void Space::install(const StoreRequest& message, Request& request) {
  Held& target = held(message.slice);
  require_size(target, message, request);
  const std::span<const float> values = floats_in(request);
  if (message.piece < 0 || message.piece >= message.pieces ||
      std::size_t(message.pieces) < target.slice.arrays() ||
      std::size_t(message.pieces) > target.slice.most_arrays())
    throw Error(ErrorCode::kBadInput,
                fmt::format("piece {} of {} of slice {}", message.piece, message.pieces, message.slice));
  // With vectors there are more counts, which VectorSlice checks.
  const bool has_more = options_.spec.vectors > 0 && message.counts.size() > target.slice.segments();
  if (message.counts.size() != target.slice.segments() && !has_more)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} counts for slice {}, which has {} stretches", message.counts.size(),
                            message.slice, target.slice.segments()));
  const std::lock_guard lock(target.mutex);
  if (!takes(message, request)) return answer(request, {.version = message.version});
  // The state here is newer: an update came first.
  if (target.slice.is_filled() && target.slice.version() >= message.version)
    return answer(request, {.version = message.version});
  target.pieces[message.piece].assign(values.begin(), values.end());
  if (std::int64_t(target.pieces.size()) == message.pieces) {
    Slice::State state{.version = message.version,
                       .filled = true,
                       .counts = message.counts,
                       .tickets_below = message.below,
                       .tickets_above = message.done};
    for (auto& [piece, array] : std::exchange(target.pieces, {})) state.arrays.push_back(std::move(array));
    if (log_) log_->append_installed(message.slice, message.version);
    target.slice.install(std::move(state));
  }
  answer(request, {.version = message.version});
  apply_early(target);
}

}  // namespace distbelief::server
