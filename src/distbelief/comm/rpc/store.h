#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/base/operation.h"

// The messages between replicas and parameter servers (proto/store.proto is their wire format). Plain values,
// without gRPC. Gradients and parameters travel beside them as raw bytes (exchange_client.h).
namespace distbelief::comm {

// A job's arena is cut into slices of this many elements, the last one shorter. A slice is updated, ordered,
// counted and sent as a whole.
inline constexpr std::size_t kSliceElements = std::size_t{256} << 10;

// Replicas of a job have numbers below it.
inline constexpr std::int32_t kMostReplicas = 1 << 16;
inline constexpr std::int64_t kMostStarts = std::int64_t{1} << 40;  // of one replica

// A table of rows, each made at its first update. Only the rows that a step touches are sent.
struct TableSpec {
  std::string name{};
  std::uint32_t width = 0;      // numbers in a row
  std::uint64_t seed = 0;       // of the rows' first values
  double scale = 0;             // first values are uniform in [-scale, scale)
  std::uint64_t most_rows = 0;  // above it the least recently updated go; 0: no bound
  bool operator==(const TableSpec&) const = default;
  // Bytes of a row on servers and between them: its id, the sum of squares, a version, the numbers.
  std::size_t record_bytes() const { return 16 + (width + 1) / 2 * 8; }
  // Rows that one message may carry: the updated rows, and those removed to make room, then fit into one
  // message to a backup.
  std::size_t message_rows() const;
};

// The specification of a job's state on the servers.
struct SpaceSpec {
  // The place of a parameter in the arena.
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
    bool operator==(const Stretch&) const = default;
  };
  std::string job{};
  std::uint64_t elements = 0;         // of the arena
  std::vector<Stretch> parameters{};  // by number, not overlapping
  std::uint64_t lane_values = 0;      // floats per lane (sync), or of a sub-network's statistics
  OptimizerConfig optimizer{};        // the learning rate comes with each push
  std::string mode = "sync";          // sync, async, bounded, sandblaster
  std::int64_t lanes = 1;             // of each step (sync)
  std::int64_t spare_lanes = 0;       // lanes that a step does not wait for (sync)
  std::int64_t staleness = 0;         // steps that a replica may be ahead of the slowest (bounded)
  std::int64_t tickets = 0;           // pieces of work to deal out (async, bounded)
  double compensation = 0;            // of delay; 0: none
  bool staleness_aware = false;       // the learning rate is divided by the delay
  std::int64_t portions = 0;          // into which the batch of an evaluation is cut (sandblaster)
  std::int64_t vectors = 0;           // as long as the parameters, which count as one (sandblaster)
  std::vector<TableSpec> tables{};    // by number (async, bounded)
  bool loads_rows = false;            // no rows are served before those of an earlier run are loaded
  std::int32_t sub_network = 0;       // of a decomposed model, from 1 on; 0: a whole model
  std::uint64_t input_bytes = 0;      // largest input that a ticket waits for; 0: tickets wait for none
  std::int64_t window = 0;            // inputs kept at a time, each until its ticket is done

  bool operator==(const SpaceSpec&) const = default;
  std::size_t slices() const { return (elements + kSliceElements - 1) / kSliceElements; }
};

struct StoreRequest {
  enum class Kind : int {
    kOpen = 1,   // submits or joins a job (payload: its spec); the answer has its number (`space`)
    kFill = 2,   // first values of a slice (payload); the first to come counts
    kPush = 3,   // a gradient of a slice (payload)
    kPull = 4,   // values of a slice
    kTake = 5,   // reports tickets done and asks for the next
    kBegin = 6,  // waits until this replica may begin another step (bounded)
    kMeet = 7,   // values of lanes (payload); the answer has the mean over all lanes of the step (sync)
    kLeave = 8,  // the replica leaves
    kMap = 9,    // the map of servers; the answer's payload is server::ServerMap as text
    kTell = 14,  // reports tickets done and asks for none
    // From server to server:
    kReplicate = 10,  // a gradient that the primary has applied (payload)
    kInstall = 11,    // a piece of a slice's state (payload)
    kMean = 12,       // the mean over the lanes of a step (payload)
    kDeals = 13,      // tickets dealt or done
    // From the job's submitter to every server:
    kClose = 40,  // the job is over: its state is freed
    // Sandblaster:
    kCommand = 30,      // operations on a slice; the answer has their numbers
    kCoordinator = 31,  // the coordinator's state: numbers that the ticket scheduler keeps for it
    kAdvance = 32,      // the state after an evaluation, to be kept; the next evaluation is dealt out
    // ... from server to server:
    kReplicateCommand = 38,  // a command that the primary has done
    kKeep = 39,              // the coordinator's state
    // Rows of tables. The payload is ids (64 bits each), then numbers; or records.
    kPushRows = 20,  // gradients of rows
    kPullRows = 21,  // ids; the answer has the numbers
    kRows = 22,      // from server to server: records
    kListRows = 23,  // the records of one part from an offset on; the answer has the next offset
    kLoadRows = 24,  // records of an earlier run
    // Decomposed models:
    kPutInput = 60,   // a piece of a ticket's input (payload); answered when there is room for it
    kGetInput = 61,   // a piece of it, for the replica that has the ticket
    kAwaitDone = 62,  // answered when all tickets below `ticket` are done; 0: all
    // ... from server to server:
    kKeepInput = 63,  // a piece of an input (payload)
    // Running statistics of a sub-network (payload): those of the last step count.
    kPutStatistics = 64,  // of step `version` - 1; 0: the first ones
    kGetStatistics = 65,
    kKeepStatistics = 66,  // from server to server
  };
  Kind kind = Kind::kPull;
  std::uint64_t space = 0;
  std::int32_t replica = 0;
  std::int64_t incarnation = 0;  // of the replica: raised when it is restarted
  std::int64_t slice = 0;
  std::int64_t ticket = 0;  // of the gradient: a step (sync), or the number of a ticket
  std::int64_t base = 0;    // the slice's version from which it was computed
  double lr = 0;
  std::int64_t first_lane = 0, end_lane = 0;  // lanes that a gradient sums (sync)
  std::int64_t samples = 0;                   // of these lanes
  std::int64_t step_samples = 0;              // of all lanes
  bool wants_values = false;                  // the answer carries the new values
  std::vector<std::int32_t> untouched{};      // parameters without a gradient
  std::vector<std::int64_t> done{};           // tickets (take)
  std::int64_t clock = -1;  // steps that this replica has done (take, begin); -1: it has just joined
  // From server to server:
  std::string job{};                     // instead of the number `space` (close too)
  std::int64_t version = 0;              // made by an update, or of a slice's state
  std::int64_t epoch = 0;                // of the sender's map
  std::int32_t piece = 0;                // of a slice's state: the values, then each array of the rule's
  std::vector<std::int64_t> counts{};    // of updates, per segment
  std::int64_t below = 0;                // all tickets below it are in; others are in `done`
  std::int32_t pieces = 0;               // of the whole state
  std::vector<std::int32_t> replicas{};  // that an update's gradient sums (sync)
  bool granted = false;                  // open: the job is running already, so the limits do not apply
  // Sandblaster:
  std::vector<Operation> operations{};  // of a command
  std::int64_t sequence = 0;            // of a command
  std::vector<double> numbers{};        // of the coordinator
  double loss = 0;                      // of a portion: the mean over its samples
  bool ends = false;                    // advance: that was the last evaluation; deals: the replica has left
  std::int32_t table = 0;               // by number
  std::uint64_t parts = 0;              // of the table, a bit each

  bool operator==(const StoreRequest&) const = default;
};

struct StoreAnswer {
  enum class Outcome : int {
    kDone = 0,
    kRepeated = 1,  // it was done before; nothing has changed
    kLate = 2,      // the step was done without it (sync)
    kWanted = 3,    // open: there are no first values yet: fill them
    kEnd = 4,       // take: all work is done
    kStale = 5,     // begin: the last fetch lacks steps of others that this step has to see
  };
  Outcome outcome = Outcome::kDone;
  std::uint64_t space = 0;
  std::int64_t version = 0;  // of the slice, afterwards
  std::int64_t ticket = 0;
  std::int64_t epoch = 0;  // of the server's map
  std::int64_t clock = 0;  // of the replica
  std::vector<double> numbers{};
  std::int64_t rows = 0;    // of a part of a table
  std::int64_t gone = 0;    // rows of it removed to make room
  std::uint64_t bytes = 0;  // of an input, all its pieces

  bool operator==(const StoreAnswer&) const = default;
};

// Whether only servers send it, to each other.
bool is_of_server(StoreRequest::Kind kind);

// Conversions to bytes and back. Throw Error(kBadInput) for invalid bytes, or for numbers out of range.
std::string encode(const SpaceSpec& spec);
std::string encode(const StoreRequest& request);
std::string encode(const StoreAnswer& answer);
SpaceSpec decode_space(std::string_view bytes);
StoreRequest decode_request(std::string_view bytes);
StoreAnswer decode_answer(std::string_view bytes);

}  // namespace distbelief::comm
