#include "distbelief/server/shard/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/compute/row_values.h"
#include "distbelief/server/service/space_requests.h"
#include "distbelief/server/shard/slice.h"

namespace distbelief::server {

using comm::StoreAnswer;
using comm::StoreRequest;

namespace {

constexpr std::size_t kAhead = 8;  // rows prefetched ahead of the one being updated
constexpr int kDraws = 16;         // the oldest of these many random rows goes

std::uint64_t draw_secret() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// The same bound as for slices; it also rejects NaN.
bool is_moderate_row(const float* gradient, std::size_t width) {
  return compute::row_square(gradient, width) <= kMostMagnitude * kMostMagnitude;
}

std::uint64_t bit(int part) { return std::uint64_t{1} << part; }

}  // namespace

// Ids are copied: in shared memory the client could change them after the check.
struct Table::Push {
  std::vector<std::uint64_t> ids;
  const float* gradients = nullptr;
  float lr = 0;
  std::int64_t ticket = 0;
};

Table::Table(Options options, const Roles& roles)
    : options_(std::move(options)),
      record_(options_.spec.record_bytes()),
      secret_(draw_secret()),
      open_(options_.is_open) {
  if (options_.log != nullptr) options_.log->append_table(options_.number, options_.spec.name);
  // Nothing exists yet, so the server being filled has everything.
  for (int number = 0; number < kParts; ++number) {
    const ServerMap::Part& role = roles.map.parts[std::size_t(number)];
    part(number).was_primary = roles.is_primary(role);
    if (part(number).was_primary) part(number).filled = role.filling;
  }
}

Table::~Table() = default;

RowStore& Table::rows_of(Part& part) {
  if (!part.rows) part.rows = std::make_unique<RowStore>(options_.spec.width, secret_);
  return *part.rows;
}

void Table::require_primary(const Roles& roles, std::uint64_t parts) const {
  for (std::uint64_t left = parts; left != 0; left &= left - 1)
    if (const int number = std::countr_zero(left); !roles.is_primary(roles.map.parts[std::size_t(number)]))
      throw Error(ErrorCode::kAborted,
                  fmt::format("part {} of table {} of job {} is another server's by map {}", number,
                              options_.spec.name, options_.job, roles.map.epoch));
}

void Table::require_open() const {
  if (!open_)
    throw Error(ErrorCode::kUnavailable, fmt::format("the rows of table {} of job {} are still to be brought",
                                                     options_.spec.name, options_.job));
}

std::size_t Table::row_bytes(const comm::TableSpec& spec) {
  return spec.record_bytes() + RowStore::kMostIndexBytes;
}

std::size_t Table::most_rows_of_part(const comm::TableSpec& spec) {
  return std::max<std::size_t>(1, spec.most_rows / kParts);
}

// Called before any change: reserves room for new rows until count() counts them. A bounded table counts in
// full from the beginning.
void Table::reserve(std::optional<Reservation>& room, const std::vector<std::uint64_t>& ids) {
  if (!is_counted()) return;
  const std::size_t each = row_bytes(options_.spec);
  room.emplace(options_.budget.get(), ids.size() * each);
  if (room->is_there()) return;
  const std::size_t fresh = count_new(ids);
  room.emplace(options_.budget.get(), fresh * each);
  if (room->is_there()) return;
  const Budget& budget = *options_.budget;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{} rows more of table {} of job {}, of {} bytes each: the job has {} bytes on this "
                  "server, which takes {} of one job and {} in all; bound the table with most_rows, or "
                  "use more servers",
                  fresh, options_.spec.name, options_.job, each, budget.taken(), budget.limit(),
                  limit_of_all(budget)));
}

std::size_t Table::count_new(const std::vector<std::uint64_t>& ids) {
  std::size_t fresh = 0;
  for (const std::uint64_t id : ids) {
    Part& part = this->part(compute::part_of_row(id));
    const std::lock_guard lock(part.mutex);
    fresh += part.rows && part.rows->find(id) != nullptr ? 0 : 1;
  }
  return fresh;
}

// Called with the part's lock after its rows have changed. New rows use up their reservation.
void Table::count(Part& part, Reservation* room) {
  if (!is_counted()) return;
  const std::size_t before = std::exchange(part.counted, part.rows ? part.rows->bytes() : 0);
  const std::size_t rows_before = std::exchange(part.counted_rows, part.rows ? part.rows->rows() : 0);
  const std::size_t fresh = part.counted_rows - std::min(rows_before, part.counted_rows);
  if (room != nullptr)
    room->use(fresh * row_bytes(options_.spec), before, part.counted);
  else
    options_.budget->replace(before, part.counted);
}

Table::Push Table::checked(const StoreRequest& message, const Request& request) const {
  const auto require = [&](bool is_good, const std::string& why) {
    if (!is_good)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{} sent replica {}'s rows of table {} of job {}: {}", request.peer().name,
                              message.replica, options_.spec.name, options_.job, why));
  };
  const std::size_t width = options_.spec.width;
  const std::size_t row_bytes = sizeof(std::uint64_t) + width * sizeof(float);
  const std::span<const std::byte> payload = request.payload();
  const std::size_t rows = payload.size() / row_bytes;
  require(payload.size() == rows * row_bytes && rows <= options_.spec.message_rows(),
          fmt::format("{} bytes are not up to {} ids with {} numbers each", payload.size(),
                      options_.spec.message_rows(), width));
  require(message.ticket < options_.tickets,
          fmt::format("ticket {} of {}", message.ticket, options_.tickets));
  require(is_usable_rate(message.lr), fmt::format("a learning rate of {}; lower train.lr", message.lr));
  Push push{.ids = std::vector<std::uint64_t>(rows), .lr = float(message.lr), .ticket = message.ticket};
  std::memcpy(push.ids.data(), payload.data(), rows * sizeof(std::uint64_t));
  push.gradients = reinterpret_cast<const float*>(payload.data() + rows * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < rows; ++i) {
    const int part = compute::part_of_row(push.ids[i]);
    require((message.parts & bit(part)) != 0, fmt::format("row {} is of no part that it names", push.ids[i]));
    if (i > 0) {
      const int before = compute::part_of_row(push.ids[i - 1]);
      require(before < part || (before == part && push.ids[i - 1] < push.ids[i]),
              fmt::format("row {} stands twice or out of order", push.ids[i]));
    }
    require(is_moderate_row(push.gradients + i * width, width),
            fmt::format("a number that is not finite, or too large, for row {} (ticket {}); lower train.lr",
                        push.ids[i], message.ticket));
  }
  return push;
}

// Adds a part's backups to the parcels in `all`, and returns those of this part.
Table::Parcels Table::parcels_for(Parcels& all, const Roles& roles, int number, const Part& part) {
  Parcels found;
  for (const auto& link : roles.backups(roles.map.parts[std::size_t(number)], part.filled)) {
    auto at = std::ranges::find(all, link, &Parcel::link);
    if (at == all.end()) at = all.insert(at, {link, std::make_shared<std::vector<std::byte>>()});
    at->parts |= bit(number);
    found.push_back(*at);
  }
  return found;
}

bool Table::has(std::int64_t ticket, std::uint64_t parts) {
  for (std::uint64_t left = parts; left != 0; left &= left - 1) {
    Part& part = this->part(std::countr_zero(left));
    const std::lock_guard lock(part.mutex);
    if (part.tickets.contains(ticket)) return true;
  }
  return false;
}

// Called before any change.
void Table::require_ticket(std::int64_t ticket, std::uint64_t parts) {
  for (std::uint64_t left = parts; left != 0; left &= left - 1) {
    Part& part = this->part(std::countr_zero(left));
    const std::lock_guard lock(part.mutex);
    if (!part.tickets.has_room_for(ticket))
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("table {} of job {} has {} stretches of tickets apart from each other, ticket {} "
                      "would be one more",
                      options_.spec.name, options_.job, TicketSet::kMostRanges, ticket));
  }
}

bool Table::push(const StoreRequest& message, Request& request) {
  const Push push = checked(message, request);
  require_open();
  require_logged();
  std::optional<Reservation> room;
  reserve(room, push.ids);
  Parcels parcels;
  bool repeated = false;
  std::shared_lock applying = work();
  const std::shared_ptr<const Roles> now = options_.roles();
  require_primary(*now, message.parts);
  require_ticket(message.ticket, message.parts);
  RowsRecord record{.table = options_.number, .ticket = message.ticket, .replica = message.replica};
  std::size_t begin = 0;
  for (std::uint64_t left = message.parts; left != 0; left &= left - 1) {
    const int number = std::countr_zero(left);
    repeated |= !apply(push, *now, number, begin, parcels, record, room ? &*room : nullptr);
    while (begin < push.ids.size() && compute::part_of_row(push.ids[begin]) == number) ++begin;
  }
  const auto kept = std::make_shared<Request>(std::move(request));
  const auto done = [kept, repeated, unlogged = note(record), epoch = now->map.epoch] {
    if (unlogged) return kept->refuse(unlogged->code(), unlogged->message());
    answer(*kept, {.outcome = repeated ? StoreAnswer::Outcome::kRepeated : StoreAnswer::Outcome::kDone,
                   .epoch = epoch});
  };
  const StoreRequest about{.replica = message.replica, .ticket = message.ticket, .epoch = now->map.epoch};
  if (!repeated) {
    hand_over(parcels, about, done);
    return false;
  }
  hand_over(parcels, about, [] {});
  applying.unlock();
  wait_for_all();  // the first push may not be queued for the backups yet
  wait_behind(parcels, done);
  return true;
}

// Returns false when the part has had this ticket.
bool Table::apply(const Push& push, const Roles& roles, int number, std::size_t begin, Parcels& all,
                  RowsRecord& record, Reservation* room) {
  std::size_t end = begin;
  while (end < push.ids.size() && compute::part_of_row(push.ids[end]) == number) ++end;
  Part& part = this->part(number);
  const std::lock_guard lock(part.mutex);
  const Parcels parcels = parcels_for(all, roles, number, part);
  if (!part.tickets.insert(push.ticket)) {
    for (Parcel& parcel : all) parcel.parts &= ~bit(number);  // the ticket travels only with its rows
    return false;
  }
  ++part.version;
  record.parts |= bit(number);
  if (begin == end) return true;
  RowsRecord::Part& touched = record.rows.emplace_back(RowsRecord::Part{.part = number});
  RowStore& rows = rows_of(part);
  for (std::size_t i = begin; i < std::min(begin + 2 * kAhead, end); ++i) rows.expect_entry(push.ids[i]);
  for (std::size_t i = begin; i < std::min(begin + kAhead, end); ++i) rows.expect_row(push.ids[i]);
  for (std::size_t i = begin; i < end; ++i) {
    if (i + 2 * kAhead < end) rows.expect_entry(push.ids[i + 2 * kAhead]);
    if (i + kAhead < end) rows.expect_row(push.ids[i + kAhead]);
    update(push, part, i, parcels);
    touched.add(push.ids[i]);
  }
  count(part, room);
  return true;
}

// Parts are updated one by one, skipping those that have the ticket, so the effect is known only afterwards.
// A push that cannot be logged is not acknowledged; backups have it all the same.
std::optional<Error> Table::note(const RowsRecord& record) {
  if (options_.log == nullptr || record.parts == 0) return std::nullopt;
  try {
    options_.log->append_rows(record);
  } catch (const Error& error) {
    const std::lock_guard lock(unlogged_mutex_);
    unlogged_.push_back(record);
    return error;
  }
  return std::nullopt;
}

// Logs earlier pushes first, so that a repeated push is acknowledged only after its line is written. No new
// push is done before.
void Table::require_logged() {
  const std::lock_guard lock(unlogged_mutex_);
  while (!unlogged_.empty()) {
    options_.log->append_rows(unlogged_.front());
    unlogged_.pop_front();
  }
}

void Table::update(const Push& push, Part& part, std::size_t row, const Parcels& parcels) {
  const std::size_t width = options_.spec.width;
  const float* const gradient = push.gradients + row * width;
  if (!is_moderate_row(gradient, width)) return;  // changed since the check
  RowStore& rows = *part.rows;
  RowStore::Head* head = options_.spec.most_rows > 0 ? rows.find(push.ids[row]) : nullptr;
  if (head == nullptr) {
    if (options_.spec.most_rows > 0) make_place(part, parcels);
    head = &rows.find_or_add(push.ids[row]);
  }
  if (head->version == 0)
    compute::first_values(options_.spec.seed, head->id, float(options_.spec.scale), RowStore::values(*head),
                          width);
  compute::update_row(RowStore::values(*head), head->accumulated, gradient, push.lr, width);
  head->version = part.version;
  const auto* const record = reinterpret_cast<const std::byte*>(head);
  for (const Parcel& parcel : parcels)
    parcel.records->insert(parcel.records->end(), record, record + record_);
}

// Makes room for one more row of a bounded table.
void Table::make_place(Part& part, const Parcels& parcels) {
  if (part.rows->rows() < most_rows_of_part(options_.spec)) return;
  const std::uint64_t id = part.rows->oldest_of(kDraws, part.random);
  part.rows->erase(id);
  ++part.gone;
  const RowStore::Head gone{.id = id, .accumulated = -1, .version = part.version};
  for (const Parcel& parcel : parcels) {
    const std::size_t at = parcel.records->size();
    parcel.records->resize(at + record_);
    std::memcpy(parcel.records->data() + at, &gone, sizeof gone);
  }
}

// Values are in the order of the request. Rows without updates are not created.
void Table::pull(const StoreRequest& message, Request& request) {
  const std::size_t width = options_.spec.width;
  const std::size_t rows = request.payload().size() / sizeof(std::uint64_t);
  if (request.payload().size() != rows * sizeof(std::uint64_t) || rows > options_.spec.message_rows())
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} asks for rows of table {} of job {}: {} bytes are not up to {} ids",
                            message.replica, options_.spec.name, options_.job, request.payload().size(),
                            options_.spec.message_rows()));
  require_open();
  std::vector<std::uint64_t> ids(rows);
  std::memcpy(ids.data(), request.payload().data(), request.payload().size());
  std::uint64_t touched = 0;
  for (const std::uint64_t id : ids) touched |= bit(compute::part_of_row(id));
  const std::shared_lock working = work();
  const std::shared_ptr<const Roles> now = options_.roles();
  require_primary(*now, touched);
  float* const room = room_for(request, rows * width);
  for (std::size_t i = 0; i < rows;) {
    const int number = compute::part_of_row(ids[i]);
    Part& part = this->part(number);
    const std::lock_guard lock(part.mutex);
    std::size_t end = i;
    for (; end < rows && compute::part_of_row(ids[end]) == number; ++end)
      if (part.rows && end < i + kAhead) part.rows->expect_row(ids[end]);
    for (; i < end; ++i) {
      if (part.rows && i + kAhead < end) part.rows->expect_row(ids[i + kAhead]);
      const RowStore::Head* const head = part.rows ? part.rows->find(ids[i]) : nullptr;
      if (head != nullptr)
        std::memcpy(room + i * width, RowStore::values(*head), width * sizeof(float));
      else
        compute::first_values(options_.spec.seed, ids[i], float(options_.spec.scale), room + i * width,
                              width);
    }
  }
  answer(request, {.epoch = now->map.epoch});
}

void Table::list(const StoreRequest& message, Request& request) {
  const std::shared_lock working = work();
  const std::shared_ptr<const Roles> now = options_.roles();
  if (message.slice >= kParts)
    throw Error(ErrorCode::kBadInput, fmt::format("part {} of {}", message.slice, kParts));
  require_primary(*now, bit(int(message.slice)));
  if (!open_) return answer(request, {.outcome = StoreAnswer::Outcome::kWanted});
  Part& part = this->part(int(message.slice));
  const std::lock_guard lock(part.mutex);
  StoreAnswer answered{.outcome = StoreAnswer::Outcome::kEnd, .gone = std::int64_t(part.gone)};
  std::vector<std::byte> records;
  if (part.rows) {
    answered.rows = std::int64_t(part.rows->rows());
    std::size_t place = std::size_t(message.base);
    for (; place < part.rows->places() && records.size() + record_ <= request.room(); ++place) {
      const RowStore::Head& head = part.rows->at(place);
      const auto* const record = reinterpret_cast<const std::byte*>(&head);
      if (head.version != 0) records.insert(records.end(), record, record + record_);
    }
    if (place < part.rows->places()) answered.outcome = StoreAnswer::Outcome::kDone;
    answered.version = std::int64_t(place);
  }
  std::ranges::copy(records, request.reserve(records.size()).begin());
  answer(request, answered);
}

Table::Counts Table::counts() {
  Counts all;
  for (Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    all.gone += part.gone;
    if (!part.rows) continue;
    all.rows += part.rows->rows();
    all.bytes += part.rows->bytes();
  }
  return all;
}

}  // namespace distbelief::server
