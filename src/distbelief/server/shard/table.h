#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/comm/rpc/store.h"
#include "distbelief/server/scheduler/ticket_set.h"
#include "distbelief/server/service/budget.h"
#include "distbelief/server/service/roles.h"
#include "distbelief/server/shard/row_store.h"
#include "distbelief/server/shard/update_log.h"

namespace distbelief::server {

// One table of a job on one server: rows that are made at their first update, in the parts of the servers'
// map, each with its own lock. A push sends the new state of its rows to the backups with a version; the
// newest version counts, so the messages may arrive in any order. The push is answered when the backups have
// them. A ticket counts once in each part. Thread safe; only fill() blocks.
class Table {
 public:
  using Request = comm::ExchangeServer::Request;
  struct Options {
    std::string job{};
    std::int32_t number = 0;  // of the table, in the job
    comm::TableSpec spec{};
    std::int64_t tickets = 0;          // tickets of the job
    std::shared_ptr<Budget> budget{};  // of the job; null: no limit
    bool is_open = true;               // false: it waits for rows of an earlier run
    UpdateLog* log = nullptr;          // may be null
    std::function<std::shared_ptr<const Roles>()> roles{};
  };
  Table(Options options, const Roles& roles);
  ~Table();

  // Bytes of a row with its share of the index, at most.
  static std::size_t row_bytes(const comm::TableSpec& spec);
  // Most rows in a part of a bounded table.
  static std::size_t most_rows_of_part(const comm::TableSpec& spec);

  // These take the request, unless they throw: Error(kBadInput) for an invalid one, kAborted for one that
  // belongs to another server, before anything has changed. push() returns whether the ticket was there
  // already.
  bool push(const comm::StoreRequest& message, Request& request);
  bool has(std::int64_t ticket, std::uint64_t parts);  // whether any of these parts has it
  void pull(const comm::StoreRequest& message, Request& request);
  void list(const comm::StoreRequest& message, Request& request);
  void load(const comm::StoreRequest& message, Request& request);
  void install(const comm::StoreRequest& message, Request& request);  // from another server

  // Returns when no request runs by older roles, and the updates made by them are queued for the backups.
  // Forgets parts that this server no longer holds.
  void follow(const Roles& roles);
  // Streams all rows of the parts of which it is primary to a backup that is being filled, in chunks. Blocks.
  void fill(int newcomer);

  struct Counts {
    std::size_t rows = 0, bytes = 0, gone = 0;
  };
  Counts counts();

 private:
  struct Part {
    std::mutex mutex;                // guards the rest, and the order of items handed over
    std::unique_ptr<RowStore> rows;  // null: none yet
    TicketSet tickets;
    std::uint32_t version = 0;                                // of its newest rows
    std::size_t gone = 0;                                     // rows removed to make room
    std::size_t counted = 0, counted_rows = 0;                // bytes in the budget, and their rows
    std::unordered_map<std::uint64_t, std::uint32_t> left{};  // removed rows, and when (backup)
    int filled = kNobody;                                     // the newcomer that gets updates
    bool was_primary = false;                                 // in the roles before
    std::uint64_t random = 0;
  };
  // The records for one backup.
  struct Parcel {
    std::shared_ptr<BackupLink> link;
    std::shared_ptr<std::vector<std::byte>> records;
    std::uint64_t parts = 0;  // those with a ticket in this message
  };
  using Parcels = std::vector<Parcel>;
  struct Push;

  Push checked(const comm::StoreRequest& message, const Request& request) const;
  std::span<const std::byte> checked_records(const Request& request) const;
  void require_primary(const Roles& roles, std::uint64_t parts) const;
  void require_open() const;
  bool is_counted() const { return options_.budget && options_.spec.most_rows == 0; }
  void reserve(std::optional<Reservation>& room, const std::vector<std::uint64_t>& ids);
  std::size_t count_new(const std::vector<std::uint64_t>& ids);
  void count(Part& part, Reservation* room = nullptr);
  void require_ticket(std::int64_t ticket, std::uint64_t parts);
  std::shared_lock<std::shared_mutex> work();
  void wait_for_all();
  Part& part(int number) { return parts_[std::size_t(number)]; }
  RowStore& rows_of(Part& part);
  static Parcels parcels_for(Parcels& all, const Roles& roles, int number, const Part& part);
  bool apply(const Push& push, const Roles& roles, int number, std::size_t begin, Parcels& parcels,
             RowsRecord& record, Reservation* room);
  void update(const Push& push, Part& part, std::size_t row, const Parcels& parcels);
  std::optional<Error> note(const RowsRecord& record);
  void require_logged();
  void make_place(Part& part, const Parcels& parcels);
  void hand_over(const Parcels& parcels, const comm::StoreRequest& about, const std::function<void()>& done);
  static void wait_behind(const Parcels& parcels, const std::function<void()>& done);
  bool is_held(const comm::StoreRequest& message, const std::string& sender, int number) const;
  void take_part(const comm::StoreRequest& message, const std::string& sender, int number,
                 std::span<const std::byte> records, RowsRecord& record);
  void take_record(Part& part, std::span<const std::byte> record);
  void note_tickets(const comm::StoreRequest& message, int number, Part& part);
  void stream(int number, int newcomer);

  Options options_;
  std::size_t record_;
  std::uint64_t secret_;
  std::array<Part, kParts> parts_;
  std::mutex turn_;             // so that wait_for_all() gets its turn
  std::shared_mutex applying_;  // shared by requests, which go by the roles that they have seen
  std::atomic<bool> open_;      // rows of an earlier run are here
  std::mutex unlogged_mutex_;
  std::deque<RowsRecord> unlogged_;  // pushes done but not yet acknowledged
};

}  // namespace distbelief::server
