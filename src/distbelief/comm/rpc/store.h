#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/base/operation.h"

// What replicas and parameter servers say to each other (proto/store.proto is the form it takes on the wire).
// Plain values, without gRPC. Gradients and parameters go beside them as raw bytes (exchange_client.h).
namespace distbelief::comm {

// A job's arena is cut into slices of so many elements, the last one shorter: what is updated, ordered,
// counted and sent as a whole.
inline constexpr std::size_t kSliceElements = std::size_t{256} << 10;

// Replicas of a job have numbers below it.
inline constexpr std::int32_t kMostReplicas = 1 << 16;
inline constexpr std::int64_t kMostStarts = std::int64_t{1} << 40;  // of one

// Rows of numbers that are made when they are first updated; only those that a step touches are sent.
struct TableSpec {
  std::string name{};
  std::uint32_t width = 0;      // numbers in a row
  std::uint64_t seed = 0;       // of the rows' first values
  double scale = 0;             // these are uniform in [-scale, scale)
  std::uint64_t most_rows = 0;  // more: the least recently updated go; 0: as many as come
  bool operator==(const TableSpec&) const = default;
  // A row as servers keep it and tell it to each other: its id, the sum of squares, a version, the numbers.
  std::size_t record_bytes() const { return 16 + (width + 1) / 2 * 8; }
  // That one message may carry: what comes of it, and rows that go for it, fit into one to a backup.
  std::size_t message_rows() const;
};

// What a job asks the servers to keep for it.
struct SpaceSpec {
  // Where a parameter lies in the arena.
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
    bool operator==(const Stretch&) const = default;
  };
  std::string job{};
  std::uint64_t elements = 0;         // of the arena
  std::vector<Stretch> parameters{};  // by number, not overlapping
  std::uint64_t lane_values = 0;      // floats of each lane for all (sync), or a sub-network's statistics
  OptimizerConfig optimizer{};        // the learning rate comes with each push
  std::string mode = "sync";          // sync, async, bounded, sandblaster
  std::int64_t lanes = 1;             // of each step (sync)
  std::int64_t spare_lanes = 0;       // that a step does not wait for (sync)
  std::int64_t staleness = 0;         // steps that a replica may be ahead of the slowest (bounded)
  std::int64_t tickets = 0;           // pieces of work that are dealt out (async, bounded)
  double compensation = 0;            // of delay: 0: none
  bool staleness_aware = false;       // the learning rate is divided by the delay
  std::int64_t portions = 0;          // that the batch of an evaluation is cut into (sandblaster)
  std::int64_t vectors = 0;           // as long as the parameters, these included (sandblaster)
  std::vector<TableSpec> tables{};    // by number (async, bounded)
  bool loads_rows = false;            // nobody gets rows before those of an earlier run were brought
  std::int32_t sub_network = 0;       // of a decomposed model that this is, from 1 on; 0: a whole model
  std::uint64_t input_bytes = 0;      // at most, of the input that a ticket waits for; 0: it waits for none
  std::int64_t window = 0;            // inputs that are kept at a time, each until its ticket is done

  bool operator==(const SpaceSpec&) const = default;
  std::size_t slices() const { return (elements + kSliceElements - 1) / kSliceElements; }
};

struct StoreRequest {
  enum class Kind : int {
    kOpen = 1,   // submits or joins a job, as payload; the answer names its space
    kFill = 2,   // first values of a slice, as payload; whoever comes first
    kPush = 3,   // a gradient of a slice, as payload
    kPull = 4,   // values of a slice
    kTake = 5,   // done with some tickets, wants the next
    kBegin = 6,  // waits until this replica may begin another step (bounded)
    kMeet = 7,   // values of lanes, as payload; the answer has the mean over all lanes of the step (sync)
    kLeave = 8,  // takes no more part
    kMap = 9,    // which servers have what; the answer's payload is server::ServerMap as text
    kTell = 14,  // done with some tickets, and wants nothing
    // From server to server:
    kReplicate = 10,  // a gradient that the primary has applied, as payload
    kInstall = 11,    // a piece of a slice's state, as payload
    kMean = 12,       // what lanes of a step have come to, as payload
    kDeals = 13,      // tickets that were dealt or done
    // From whoever submitted a job, to every server:
    kClose = 40,  // the job is over: its space is free
    // Sandblaster:
    kCommand = 30,      // operations on a slice; the answer has their numbers
    kCoordinator = 31,  // what the coordinator knows: numbers that the desk keeps for it
    kAdvance = 32,      // the same after an evaluation, to be kept; the next one is dealt out
    // ... from server to server:
    kReplicateCommand = 38,  // a command that the primary has done
    kKeep = 39,              // what the coordinator knows
    // Rows of tables. Ids (64 bits each), then numbers, as payload; or records.
    kPushRows = 20,  // gradients of rows
    kPullRows = 21,  // ids; the answer has the numbers
    kRows = 22,      // from server to server: records
    kListRows = 23,  // the records of one part from a place on; the answer says where to go on
    kLoadRows = 24,  // records of an earlier run
    // Decomposed models:
    kPutInput = 60,   // a piece of a ticket's input, as payload; answered when there is room for it
    kGetInput = 61,   // a piece of it for whoever has the ticket
    kAwaitDone = 62,  // answered when all tickets below `ticket` are done; 0: all
    // ... from server to server:
    kKeepInput = 63,  // a piece of an input, as payload
    // Running statistics of a sub-network, as payload: those of the last step count.
    kPutStatistics = 64,  // of step `version` - 1; 0: the first ones
    kGetStatistics = 65,
    kKeepStatistics = 66,  // from server to server
  };
  Kind kind = Kind::kPull;
  std::uint64_t space = 0;
  std::int32_t replica = 0;
  std::int64_t incarnation = 0;  // of the replica: raised when it is started again
  std::int64_t slice = 0;
  std::int64_t ticket = 0;  // whose gradient it is: a step (sync), or the number of a ticket
  std::int64_t base = 0;    // the slice's version from which it was computed
  double lr = 0;
  std::int64_t first_lane = 0, end_lane = 0;  // that a gradient is the sum of (sync)
  std::int64_t samples = 0;                   // of these
  std::int64_t step_samples = 0;              // of all lanes
  bool wants_values = false;                  // the new values come with the answer
  std::vector<std::int32_t> untouched{};      // parameters that had no gradient
  std::vector<std::int64_t> done{};           // tickets (take)
  std::int64_t clock = -1;  // steps that this replica has done (take, begin); -1: it has just come
  // From server to server:
  std::string job{};                     // instead of the space's number (close too)
  std::int64_t version = 0;              // that an update made, or of a slice's state
  std::int64_t epoch = 0;                // of the map that the sender goes by
  std::int32_t piece = 0;                // of a slice's state: the values, then each array of the rule's
  std::vector<std::int64_t> counts{};    // of updates, per segment
  std::int64_t below = 0;                // tickets below it are in; others are in `done`
  std::int32_t pieces = 0;               // that the state has
  std::vector<std::int32_t> replicas{};  // whose gradients an update is the sum of (sync)
  bool granted = false;                  // open: the job is under way, so there is room for it or not
  // Sandblaster:
  std::vector<Operation> operations{};  // of a command
  std::int64_t sequence = 0;            // of a command
  std::vector<double> numbers{};        // of the coordinator
  double loss = 0;                      // of a portion, the mean over its samples
  bool ends = false;                    // advance: that was the last evaluation; deals: the replica has left
  std::int32_t table = 0;               // by number
  std::uint64_t parts = 0;              // of the table that it is about, a bit each

  bool operator==(const StoreRequest&) const = default;
};

struct StoreAnswer {
  enum class Outcome : int {
    kDone = 0,
    kRepeated = 1,  // it was done before; nothing has changed
    kLate = 2,      // the step went on without it (sync)
    kWanted = 3,    // open: the space has no values yet: fill it
    kEnd = 4,       // take: all work is done
    kStale = 5,     // begin: others have done steps since the last fetch that this one has to see
  };
  Outcome outcome = Outcome::kDone;
  std::uint64_t space = 0;
  std::int64_t version = 0;  // of the slice, after it
  std::int64_t ticket = 0;
  std::int64_t epoch = 0;  // of the server's map
  std::int64_t clock = 0;  // of the replica
  std::vector<double> numbers{};
  std::int64_t rows = 0;    // of a part of a table
  std::int64_t gone = 0;    // rows of it that made place for others
  std::uint64_t bytes = 0;  // of an input, all its pieces

  bool operator==(const StoreAnswer&) const = default;
};

// Whether servers alone say it, to each other.
bool is_of_server(StoreRequest::Kind kind);

// As bytes, and back. Throw Error(kBadInput) for bytes that are none, or numbers out of their range.
std::string encode(const SpaceSpec& spec);
std::string encode(const StoreRequest& request);
std::string encode(const StoreAnswer& answer);
SpaceSpec decode_space(std::string_view bytes);
StoreRequest decode_request(std::string_view bytes);
StoreAnswer decode_answer(std::string_view bytes);

}  // namespace distbelief::comm
