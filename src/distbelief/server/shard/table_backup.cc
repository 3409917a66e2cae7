#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/compute/row_values.h"
#include "distbelief/server/client/under_way.h"
#include "distbelief/server/service/space_requests.h"
#include "distbelief/server/shard/table.h"

// A table between servers, and rows loaded from an earlier run.
namespace distbelief::server {

using comm::StoreRequest;
using Kind = comm::StoreRequest::Kind;

namespace {

// The subject of a message of rows: the ticket that they belong to, in the message's parts; the finished
// tickets of its parts; or the end of an earlier run's rows.
enum class About : std::int32_t { kUpdate = 0, kTickets = 1, kOpen = 2 };

constexpr int kChunksUnderWay = 4;
constexpr std::size_t kMostLeft = 1024;         // remembered removals, before old ones are dropped
constexpr std::uint32_t kVersionsApart = 1000;  // messages that overtake each other are nearer

RowStore::Head head_of(std::span<const std::byte> record) {
  RowStore::Head head;
  std::memcpy(&head, record.data(), sizeof head);
  return head;
}

}  // namespace

// Calls `done` when all backups have everything.
void Table::hand_over(const Parcels& parcels, const StoreRequest& about, const std::function<void()>& done) {
  if (parcels.empty()) return done();
  const auto left = std::make_shared<std::atomic<std::size_t>>(parcels.size());
  for (const Parcel& parcel : parcels) {
    StoreRequest message = about;
    message.kind = Kind::kRows;
    message.job = options_.job;
    message.table = options_.number;
    message.parts = parcel.parts;
    parcel.link->hand_over({.header = comm::encode(message),
                            .payload = std::span<const std::byte>(*parcel.records),
                            .owner = parcel.records,
                            .done = [left, done] {
                              if (--*left == 0) done();
                            }});
  }
}

// Calls `done` when these links have delivered everything handed over so far.
void Table::wait_behind(const Parcels& parcels, const std::function<void()>& done) {
  if (parcels.empty()) return done();
  const auto left = std::make_shared<std::atomic<std::size_t>>(parcels.size());
  for (const Parcel& parcel : parcels)
    parcel.link->hand_over({.done = [left, done] {
      if (--*left == 0) done();
    }});
}

// Between servers the backup accepts every row of the primary, also with numbers that are not finite: a run
// may come to such by itself.
std::span<const std::byte> Table::checked_records(const Request& request) const {
  const std::span<const std::byte> payload = request.payload();
  const bool is_of_server = request.peer().role == "server";
  const auto require = [&](bool is_good, const std::string& why) {
    if (!is_good)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{} sent records of table {} of job {}: {}", request.peer().name,
                              options_.spec.name, options_.job, why));
  };
  require(payload.size() % record_ == 0,
          fmt::format("{} bytes, and a record has {}", payload.size(), record_));
  for (std::size_t at = 0; at < payload.size(); at += record_) {
    const RowStore::Head head = head_of(payload.subspan(at));
    const auto* const values = reinterpret_cast<const float*>(payload.data() + at + sizeof head);
    require(head.version > 0, fmt::format("row {} has no version", head.id));
    require(is_of_server || (head.accumulated >= 0 && std::isfinite(head.accumulated) &&
                             std::isfinite(compute::row_square(values, options_.spec.width))),
            fmt::format("row {} has a number that is not finite, or a negative sum of squares", head.id));
  }
  return payload;
}

// No request begins while a thread waits for all, or that wait might never end.
std::shared_lock<std::shared_mutex> Table::work() {
  const std::lock_guard turn(turn_);
  return std::shared_lock(applying_);
}

void Table::wait_for_all() {
  const std::lock_guard turn(turn_);
  const std::unique_lock all(applying_);
}

// Follows the map whether or not it can be logged.
void Table::follow(const Roles& roles) {
  wait_for_all();
  for (int number = 0; number < kParts; ++number) {
    Part& part = this->part(number);
    const ServerMap::Part& role = roles.map.parts[std::size_t(number)];
    const std::lock_guard lock(part.mutex);
    const bool is_primary = roles.is_primary(role);
    // A fill by an earlier primary does not count.
    if (part.filled != role.filling || (is_primary && !part.was_primary)) part.filled = kNobody;
    part.was_primary = is_primary;
    if (roles.holds(role)) continue;
    if (part.tickets.size() > 0 && options_.log != nullptr)
      options_.log->note_rows_forgotten(options_.number, number);
    part.rows.reset();
    count(part);
    part.tickets = {};
    part.version = 0;
    part.gone = 0;
    part.left = {};
  }
}

// False when the part has gone to another server since its primary sent this: the new holder has this too. A
// sender with a newer map than this server is right; a former primary is not.
bool Table::is_held(const StoreRequest& message, const std::string& sender, int number) const {
  const std::shared_ptr<const Roles> now = options_.roles();
  const ServerMap::Part& role = now->map.parts[std::size_t(number)];
  if (now->is_primary(role))
    throw Error(ErrorCode::kAborted,
                fmt::format("part {} of table {} of job {} is this server's own by map {}", number,
                            options_.spec.name, options_.job, now->map.epoch));
  if (now->is_outdated(sender, message.epoch, role))
    throw Error(
        ErrorCode::kAborted,
        fmt::format("{} goes by map {}; by map {} part {} of table {} of job {} is server {}'s", sender,
                    message.epoch, now->map.epoch, number, options_.spec.name, options_.job, role.primary));
  return now->takes_from(sender, message.epoch, role);
}

void Table::install(const StoreRequest& message, Request& request) {
  const std::span<const std::byte> payload = checked_records(request);
  require_logged();
  const std::string sender = request.peer().name;
  const auto part_at = [&](std::size_t at) { return compute::part_of_row(head_of(payload.subspan(at)).id); };
  RowsRecord record{.table = options_.number, .ticket = message.ticket, .replica = message.replica};
  std::uint64_t without = message.parts;  // parts with a ticket but without rows
  for (std::size_t at = 0, end = 0; at < payload.size(); at = end) {
    const int number = part_at(at);
    while (end < payload.size() && part_at(end) == number) end += record_;
    take_part(message, sender, number, payload.subspan(at, end - at), record);
    without &= ~(std::uint64_t{1} << number);
  }
  for (; without != 0; without &= without - 1)
    take_part(message, sender, std::countr_zero(without), {}, record);
  if (const std::optional<Error> unlogged = note(record)) throw *unlogged;
  if (About(message.piece) == About::kOpen) open_ = true;
  answer(request, {});
}

// Takes rows and their ticket at once: a server that becomes primary meanwhile has both, or neither.
void Table::take_part(const StoreRequest& message, const std::string& sender, int number,
                      std::span<const std::byte> records, RowsRecord& record) {
  Part& part = this->part(number);
  const std::lock_guard lock(part.mutex);
  if (!is_held(message, sender, number)) return;
  RowsRecord::Part touched{.part = number};
  for (std::size_t at = 0; at < records.size(); at += record_) {
    take_record(part, records.subspan(at, record_));
    if (const RowStore::Head head = head_of(records.subspan(at)); !(head.accumulated < 0))
      touched.add(head.id);
  }
  count(part);
  if ((message.parts >> number & 1) == 0) return;
  note_tickets(message, number, part);
  if (About(message.piece) != About::kUpdate) return;
  record.parts |= std::uint64_t{1} << number;
  if (touched.rows > 0) record.rows.push_back(touched);
}

// The newest version counts; within a push, which has one version, the last. A removal may arrive later than
// an older update of the row, but not by many messages.
void Table::take_record(Part& part, std::span<const std::byte> record) {
  const RowStore::Head head = head_of(record);
  RowStore& rows = rows_of(part);
  part.version = std::max(part.version, head.version);
  const RowStore::Head* const found = rows.find(head.id);
  if (head.accumulated < 0) {
    if (found != nullptr && found->version <= head.version) rows.erase(head.id);
    ++part.gone;
    part.left[head.id] = head.version;
    if (part.left.size() > kMostLeft)
      std::erase_if(part.left, [&](const auto& each) { return each.second + kVersionsApart < part.version; });
  } else if (found == nullptr || found->version < head.version) {
    const auto left = part.left.find(head.id);
    if (left == part.left.end() || left->second <= head.version)
      std::memcpy(static_cast<void*>(&rows.find_or_add(head.id)), record.data(), record_);
  }
}

void Table::note_tickets(const StoreRequest& message, int number, Part& part) {
  if (About(message.piece) == About::kUpdate) part.tickets.insert(message.ticket);
  if (About(message.piece) != About::kTickets) return;
  if (options_.log != nullptr)
    options_.log->append_rows_given(options_.number, number, message.below, message.done);
  TicketSet both;
  both.assign(std::max(message.below, part.tickets.below()), message.done);
  const std::vector<std::int64_t> own = part.tickets.ranges();
  for (std::size_t i = 0; i + 1 < own.size(); i += 2) both.insert(own[i], own[i + 1]);
  part.tickets = both;
  part.gone += std::size_t(std::max<std::int64_t>(0, message.version));
}

// Records of an earlier run replace those that are there; an empty message says that all have come.
void Table::load(const StoreRequest& message, Request& request) {
  const std::span<const std::byte> payload = checked_records(request);
  const std::shared_lock working = work();
  const std::shared_ptr<const Roles> now = options_.roles();
  std::uint64_t touched = message.parts;
  for (std::size_t at = 0; at < payload.size(); at += record_)
    touched |= std::uint64_t{1} << compute::part_of_row(head_of(payload.subspan(at)).id);
  require_primary(*now, touched);
  std::vector<std::uint64_t> ids;
  for (std::size_t at = 0; at < payload.size(); at += record_) ids.push_back(head_of(payload.subspan(at)).id);
  std::optional<Reservation> room;
  reserve(room, ids);
  if (open_ && !payload.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("table {} of job {} is in use: rows of an earlier run come first",
                            options_.spec.name, options_.job));
  Parcels parcels;
  for (std::size_t at = 0; at < payload.size(); at += record_) {
    const RowStore::Head head = head_of(payload.subspan(at));
    const int number = compute::part_of_row(head.id);
    Part& part = this->part(number);
    const std::lock_guard lock(part.mutex);
    if (part.version == 0) part.version = 1;
    RowStore& rows = rows_of(part);
    RowStore::Head& mine = rows.find_or_add(head.id);
    std::memcpy(static_cast<void*>(&mine), payload.data() + at, record_);
    mine.version = part.version;
    count(part, room ? &*room : nullptr);
    const auto* const record = reinterpret_cast<const std::byte*>(&mine);
    for (const Parcel& parcel : parcels_for(parcels, *now, number, part))
      parcel.records->insert(parcel.records->end(), record, record + record_);
  }
  const bool opens = payload.empty();
  if (opens) {
    open_ = true;
    for (int number = 0; number < kParts; ++number)
      if (touched >> number & 1) {
        const std::lock_guard lock(part(number).mutex);
        parcels_for(parcels, *now, number, part(number));
      }
  }
  for (Parcel& parcel : parcels) parcel.parts = 0;  // no tickets
  const auto kept = std::make_shared<Request>(std::move(request));
  hand_over(parcels, {.epoch = now->map.epoch, .piece = std::int32_t(opens ? About::kOpen : About::kUpdate)},
            [kept] { answer(*kept, {}); });
}

void Table::fill(int newcomer) {
  for (int number = 0; number < kParts; ++number) stream(number, newcomer);
}

// The newcomer gets every update from the first moment on, and then the existing rows, piece by piece; the
// newer version counts.
void Table::stream(int number, int newcomer) {
  Part& part = this->part(number);
  StoreRequest tickets{.piece = std::int32_t(About::kTickets)};
  std::shared_ptr<BackupLink> link;
  std::size_t places = 0;
  {
    const std::lock_guard lock(part.mutex);
    const std::shared_ptr<const Roles> now = options_.roles();
    const ServerMap::Part& role = now->map.parts[std::size_t(number)];
    if (!now->is_primary(role) || role.filling != newcomer || part.filled == newcomer) return;
    if (!now->links.contains(newcomer)) return;
    link = now->links.at(newcomer);
    part.filled = newcomer;
    tickets.epoch = now->map.epoch;
    tickets.version = std::int64_t(part.gone);
    tickets.below = part.tickets.below();
    tickets.done = part.tickets.ranges();
    places = part.rows ? part.rows->places() : 0;
  }
  UnderWay under_way(kChunksUnderWay);
  const auto send = [&](const StoreRequest& about, std::shared_ptr<std::vector<std::byte>> records,
                        std::uint64_t parts) {
    under_way.begin();
    hand_over({{link, std::move(records), parts}}, about, [&] { under_way.end(); });
  };
  const auto none = std::make_shared<std::vector<std::byte>>();
  send(tickets, none, std::uint64_t{1} << number);
  if (open_) send({.epoch = tickets.epoch, .piece = std::int32_t(About::kOpen)}, none, 0);
  for (std::size_t place = 0; place < places;) {
    auto records = std::make_shared<std::vector<std::byte>>();
    {
      const std::lock_guard lock(part.mutex);  // the part may move to another server meanwhile
      places = std::min(places, part.rows ? part.rows->places() : 0);
      for (; place < places && records->size() + record_ <= comm::kMaxPayloadBytes; ++place) {
        const RowStore::Head& head = part.rows->at(place);
        const auto* const record = reinterpret_cast<const std::byte*>(&head);
        if (head.version != 0) records->insert(records->end(), record, record + record_);
      }
    }
    send({.epoch = tickets.epoch}, records, 0);
  }
  under_way.wait_for_all();
}

}  // namespace distbelief::server
