#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/service/space.h"
#include "distbelief/server/service/space_requests.h"

// The job state of a sub-network whose tickets wait for the outputs of the one before it. The ticket
// scheduler takes the outputs, keeps them also at its backup, deals each ticket when its input is whole, and
// drops the input when the ticket is done.
namespace distbelief::server {

using comm::StoreAnswer;
using comm::StoreRequest;
using Outcome = comm::StoreAnswer::Outcome;

namespace {

InputWindow::Writer writer_of(const StoreRequest& message) {
  return {.replica = message.replica, .incarnation = message.incarnation};
}

InputWindow::Piece piece_in(const StoreRequest& message, std::span<const std::byte> bytes) {
  return {.ticket = message.ticket,
          .writer = writer_of(message),
          .piece = message.piece,
          .pieces = message.pieces,
          .bytes = bytes};
}

}  // namespace

void Space::require_inputs() const {
  if (options_.spec.input_bytes == 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("the work of job {} waits for no inputs", options_.spec.job));
}

void Space::put_input(const StoreRequest& message, Request& request) {
  require_inputs();
  require_tickets({message.ticket});
  window_.require_sound(piece_in(message, request.payload()));
  if (!are_finite(floats_in(request)))
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} sent an output with a number that is not finite for ticket {} of job "
                            "{}; lower train.lr",
                            message.replica, message.ticket, options_.spec.job));
  const std::lock_guard lock(desk_);
  require_desk();
  putters_.push_back({.message = message, .request = std::move(request)});
  serve();
}

// The caller holds the scheduler's lock. Answered when the backup has the piece too: the sender is then done
// with its ticket.
void Space::take_input(Waiting waiting) {
  const StoreRequest& message = waiting.message;
  InputWindow::Outcome outcome = InputWindow::Outcome::kRepeated;
  if (!dealer_.done_tickets().contains(message.ticket))
    outcome = window_.put(piece_in(message, waiting.request.payload()));
  if (outcome == InputWindow::Outcome::kComplete) dealer_.offer(message.ticket);
  const bool is_new = outcome != InputWindow::Outcome::kRepeated;
  const std::shared_ptr<const Roles> now = roles();
  const auto links = now->backups(now->map.desk(), desk_filled_);
  const auto kept = std::make_shared<Waiting>(std::move(waiting));
  BackupLink::Item item;  // empty: the piece was there before and has arrived
  if (is_new && !links.empty()) {
    StoreRequest told = kept->message;
    told.kind = StoreRequest::Kind::kKeepInput;
    told.job = options_.spec.job;
    told.epoch = now->map.epoch;
    item = {.header = comm::encode(told), .payload = kept->request.payload(), .owner = kept};
  }
  tell_all(links, item, [self = shared_from_this(), kept, is_new] {
    answer(kept->request,
           {.outcome = is_new ? Outcome::kDone : Outcome::kRepeated, .epoch = self->roles()->map.epoch});
  });
}

// The caller holds the scheduler's lock. Takes pieces that have room first, because other requests may wait
// for those.
void Space::serve_inputs() {
  if (options_.spec.input_bytes > 0) window_.drop(dealer_.done_tickets());
  std::vector<Waiting> waiting = std::exchange(putters_, {});
  for (Waiting& putter : waiting) {
    const std::int64_t ticket = putter.message.ticket;
    const InputWindow::Writer writer = writer_of(putter.message);
    if (!window_.has_room(ticket, writer)) drop_silent(ticket);
    if (window_.has_room(ticket, writer) || dealer_.done_tickets().contains(ticket))
      take_input(std::move(putter));
    else
      putters_.push_back(std::move(putter));
  }
  std::erase_if(enders_, [&](Waiting& ender) {
    const std::int64_t below = ender.message.ticket;
    const bool is_done = below > 0 ? dealer_.done_tickets().below() >= below : dealer_.is_drained();
    if (is_done) answer(ender.request, {.outcome = Outcome::kEnd});
    return is_done;
  });
}

// The caller holds the scheduler's lock. Pieces of replicas that have gone make room for the replica that has
// the ticket now.
void Space::drop_silent(std::int64_t ticket) {
  for (const InputWindow::Writer& writer : window_.writers(ticket))
    if (!is_speaking(writer.replica)) window_.drop(ticket, writer);
}

// No replica gets a ticket before its input is whole. A missing input belongs to a ticket that another
// replica has done, or is still on its way to a server that has just taken over.
void Space::give_input(const StoreRequest& message, Request& request) {
  require_inputs();
  require_tickets({message.ticket});
  const std::lock_guard lock(desk_);
  require_desk();
  if (dealer_.done_tickets().contains(message.ticket))
    return answer(request, {.outcome = Outcome::kRepeated});
  if (!window_.is_whole(message.ticket))
    throw Error(ErrorCode::kUnavailable, fmt::format("the input of ticket {} of job {} is not here yet",
                                                     message.ticket, options_.spec.job));
  if (message.piece < 0 || message.piece >= window_.pieces(message.ticket))
    throw Error(ErrorCode::kBadInput,
                fmt::format("piece {} of an input of {}", message.piece, window_.pieces(message.ticket)));
  const std::span<const std::byte> piece = window_.piece(message.ticket, message.piece);
  std::memcpy(request.reserve(piece.size()).data(), piece.data(), piece.size());
  // Pieces of two writers cannot be combined: a scheduler that took over may have another writer's.
  const InputWindow::Writer writer = window_.writer(message.ticket);
  answer(request, {.version = (std::int64_t(writer.replica) << 40) + writer.incarnation,
                   .bytes = window_.bytes(message.ticket)});
}

void Space::await_done(const StoreRequest& message, Request& request) {
  if (message.ticket > 0) require_tickets({message.ticket - 1});
  const std::lock_guard lock(desk_);
  require_desk();
  enders_.push_back({.message = message, .request = std::move(request)});
  serve();
}

void Space::keep_input(const StoreRequest& message, Request& request) {
  require_inputs();
  require_tickets({message.ticket});
  const InputWindow::Piece piece = piece_in(message, request.payload());
  window_.require_sound(piece);
  const std::lock_guard lock(desk_);
  if (has_desk_) throw Error(ErrorCode::kAborted, "this server keeps the inputs itself");
  require_sender(message, request, roles()->map.desk());
  // Messages come in any order: the report that the ticket is done may have come first.
  if (!dealer_.done_tickets().contains(message.ticket)) window_.put(piece);
  answer(request, {});
}

void Space::require_statistics(const StoreRequest& message, const Request& request) const {
  const std::size_t wanted = options_.spec.lane_values;
  if (wanted == 0 || request.payload().size() != wanted * sizeof(float))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} bytes of running statistics; job {} has {} floats of them",
                            request.payload().size(), options_.spec.job, wanted));
  // Statistics of a step that does not exist would block all later ones.
  if (message.version < 0 || message.version > options_.spec.tickets)
    throw Error(ErrorCode::kBadInput, fmt::format("running statistics after {} steps of job {}, which has {}",
                                                  message.version, options_.spec.job, options_.spec.tickets));
  if (!are_finite(floats_in(request)))
    throw Error(ErrorCode::kBadInput,
                fmt::format("running statistics of job {} with a number that is not finite; lower train.lr",
                            options_.spec.job));
}

// The caller holds the scheduler's lock.
void Space::take_statistics(std::int64_t version, std::span<const float> values) {
  statistics_version_ = version;
  statistics_.assign(values.begin(), values.end());
}

// From a replica, or from the ticket scheduler to its backup. Those of the latest step count, in any order.
void Space::put_statistics(const StoreRequest& message, Request& request) {
  require_statistics(message, request);
  const bool is_of_desk = message.kind == StoreRequest::Kind::kKeepStatistics;
  const std::lock_guard lock(desk_);
  if (is_of_desk && has_desk_) throw Error(ErrorCode::kAborted, "this server keeps the statistics itself");
  if (is_of_desk) require_sender(message, request, roles()->map.desk());
  if (!is_of_desk) require_desk();
  const bool is_newer = message.version > statistics_version_;
  if (is_newer) take_statistics(message.version, floats_in(request));
  if (is_of_desk) return answer(request, {});
  const std::shared_ptr<const Roles> now = roles();
  const auto links = now->backups(now->map.desk(), desk_filled_);
  const auto kept = std::make_shared<Request>(std::move(request));
  BackupLink::Item item;
  if (is_newer && !links.empty())
    item = {.header = comm::encode(StoreRequest{.kind = StoreRequest::Kind::kKeepStatistics,
                                                .job = options_.spec.job,
                                                .version = message.version,
                                                .epoch = now->map.epoch}),
            .payload = kept->payload(),
            .owner = kept};
  tell_all(links, item, [kept] { answer(*kept, {}); });
}

void Space::give_statistics(Request& request) {
  const std::lock_guard lock(desk_);
  require_desk();
  if (statistics_version_ < 0)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("job {} has no running statistics yet", options_.spec.job));
  std::memcpy(room_for(request, statistics_.size()), statistics_.data(), statistics_.size() * sizeof(float));
  answer(request, {.version = statistics_version_});
}

// The caller holds the scheduler's lock.
void Space::fill_inputs(const std::shared_ptr<BackupLink>& link) {
  const std::int64_t epoch = roles()->map.epoch;
  if (statistics_version_ >= 0) {
    const auto values = std::make_shared<std::vector<float>>(statistics_);
    tell_all({link},
             {.header = comm::encode(StoreRequest{.kind = StoreRequest::Kind::kKeepStatistics,
                                                  .job = options_.spec.job,
                                                  .version = statistics_version_,
                                                  .epoch = epoch}),
              .payload = std::as_bytes(std::span(*values)),
              .owner = values},
             [] {});
  }
  for (const InputWindow::Piece& piece : window_.everything()) {
    const auto bytes = std::make_shared<std::vector<std::byte>>(piece.bytes.begin(), piece.bytes.end());
    tell_all({link},
             {.header = comm::encode(StoreRequest{.kind = StoreRequest::Kind::kKeepInput,
                                                  .replica = piece.writer.replica,
                                                  .incarnation = piece.writer.incarnation,
                                                  .ticket = piece.ticket,
                                                  .job = options_.spec.job,
                                                  .epoch = epoch,
                                                  .piece = piece.piece,
                                                  .pieces = piece.pieces}),
              .payload = std::as_bytes(std::span(*bytes)),
              .owner = bytes},
             [] {});
  }
}

}  // namespace distbelief::server
