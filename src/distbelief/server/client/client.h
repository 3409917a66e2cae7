#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/comm/rpc/store.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::server {

// A replica's client: all of a job's parameters, wherever their slices are. When a server is lost, it asks
// the others for a newer map and repeats the request there; what was done already counts once. Used by one
// thread. Every function throws Error: kUnavailable or kTimeout when no server has answered for `deadline`,
// or a server's refusal. Waits that other replicas may prolong (for tickets, for a turn, for room) last as
// long as servers answer.
class Client {
 public:
  struct Options {
    std::vector<comm::ControlAddress> servers{};  // sources of the map; the first one's certificates
    std::string host{};                           // this host's name, as in maps
    comm::SpaceSpec spec{};
    std::int32_t replica = 0;
    std::int64_t incarnation = 1;
    // Several clients of one replica may each push and pull a share of the slices. The first one is made
    // first and brings the first values of all slices.
    int share = 0;
    int shares = 1;
    bool shares_memory = true;  // with servers on this host
    std::chrono::milliseconds deadline{120'000};
    // Polled during waits without a deadline, for tickets and for room: when it returns false they throw
    // Error(kTimeout). May be empty.
    std::function<bool()> goes_on{};
    // Returns the servers' present addresses, or nothing. Called at the start, and when no known server
    // answers, because all may have been replaced meanwhile. May be empty.
    std::function<std::vector<comm::ControlAddress>()> find_servers{};
  };
  // Connects, and submits the job or joins it. The first client brings the first values.
  Client(Options options, const float* initial);
  ~Client();
  Client(Client&&) noexcept;

  // The description of a gradient to push.
  struct Push {
    std::int64_t ticket = 0;
    double lr = 0;
    std::int64_t first_lane = 0, end_lane = 0;
    std::int64_t samples = 0;
    std::int64_t step_samples = 0;
    std::vector<std::int32_t> untouched{};
    double loss = 0;  // of a portion (sandblaster)
  };
  // The slices of this client's share, and their elements in the arena.
  std::int64_t first_slice() const { return share_begin(options_.share); }
  std::int64_t end_slice() const { return share_begin(options_.share + 1); }
  comm::SpaceSpec::Stretch own() const { return elements_of(share()); }
  // Whole slices of the arena; by default those of the share. Gradients and values passed with them have one
  // number per element of the slices.
  struct Slices {
    std::int64_t begin = 0, end = 0;
  };
  Slices share() const { return {first_slice(), end_slice()}; }
  comm::SpaceSpec::Stretch elements_of(Slices slices) const;

  class Handle;  // client_handle.h
  // Send without waiting for the answers; they block only while more than 16 messages are in flight to a
  // server. The memory passed to them must stay valid and unchanged until the handle has been waited for or
  // destroyed.
  Handle start_push(const Push& push, std::span<const float> gradients, std::optional<Slices> of = {});
  Handle start_pull(std::span<float> values, std::optional<std::int64_t> version = {},
                    std::optional<Slices> of = {});
  Handle start_push_pull(const Push& push, std::span<const float> gradients, std::span<float> values,
                         std::optional<Slices> of = {});
  // Blocking versions. push() sends a gradient and returns whether any slice had it before.
  bool push(const Push& push, std::span<const float> gradients);
  // push_pull() also gets the new values of these elements. `values` empty: only sends.
  bool push_pull(const Push& push, std::span<const float> gradients, std::span<float> values);
  // Gets these parameters: the newest, or those of a version (sync). Returns the least version of a slice.
  std::int64_t pull(std::span<float> values, std::optional<std::int64_t> version = {});

  // A request for a ticket, in flight to the ticket scheduler.
  class Asked {
   public:
    bool ready() const { return is_sent_ && pending_.ready(); }

   private:
    friend class Client;
    comm::StoreRequest message_{};
    comm::ExchangeClient::Pending pending_;
    bool is_sent_ = false;  // false: the scheduler could not be reached
  };
  // Reports these tickets done and asks for another, without waiting for the answer.
  Asked ask_ticket(const std::vector<std::int64_t>& done);
  // Blocks until one of these requests is answered, and removes that one; returns nothing when all work is
  // done. A request that was lost with its server is sent again, after newer ones, so that it cannot wait for
  // a ticket that this replica already holds.
  std::optional<std::int64_t> next_ticket(std::deque<Asked>& asked);
  // Non-blocking version: returns nothing while none is answered. A lost request stays lost until
  // next_ticket().
  struct Dealt {
    std::optional<std::int64_t> ticket{};  // nothing: all work is done
  };
  std::optional<Dealt> ready_ticket(std::deque<Asked>& asked);
  // Reports these tickets done, because others wait for them, and asks for none.
  void tell_done(const std::vector<std::int64_t>& done);
  // Reports these tickets done and blocks until this replica may begin the step of another (bounded). Returns
  // whether its last fetch is too old for that step: then pull.
  bool begin_step(std::int64_t ticket, const std::vector<std::int64_t>& done);
  // Sends rows of lanes; `mean` gets the mean over the lanes of all replicas. Returns its step: a later one
  // when steps do not wait for every lane and this replica was late.
  std::int64_t meet(std::int64_t step, std::int64_t first_lane, std::int64_t end_lane,
                    const std::vector<std::int32_t>& empty, std::span<const float> rows,
                    std::span<float> mean);
  // Gets the mean of a finished step (sync), for a restarted replica; or of a later one, as above.
  void meet_again(std::int64_t step, std::span<float> mean);
  // Reports these tickets done and takes no part until it asks for another: its tickets and requests go to
  // others, and no replica waits for it. It rejoins with the clock of the slowest.
  void rest(std::vector<std::int64_t> done, std::deque<Asked>& asked);

  // Sandblaster (client_vectors.cc). Runs a command on every slice where it lives; returns its numbers over
  // all of them.
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations);
  // The coordinator's state after an evaluation.
  struct Coordinator {
    std::int64_t evaluation = 0;
    std::vector<double> numbers{};
    bool ends = false;  // it was the last evaluation
  };
  Coordinator coordinator();
  // Saves the coordinator's new state: the next portions are dealt out, or none after the last evaluation.
  void advance(const Coordinator& coordinator);

  // Decomposed models (client_inputs.cc). Brings the input of a ticket of another sub-network, whose client
  // this is; blocks while there is no room. An input that is there already counts.
  void put_input(std::int64_t ticket, std::span<const std::byte> bytes);
  // Gets the input of a ticket that this replica has; nothing when another replica has done the ticket
  // meanwhile.
  std::optional<std::vector<std::byte>> input(std::int64_t ticket);
  // Blocks until all tickets below this one are done; 0: all.
  void await_done(std::int64_t ticket = 0);
  // Running statistics of this client's sub-network after `steps` steps; the latest count. statistics() waits
  // until there are some.
  void put_statistics(std::int64_t steps, std::span<const float> values);
  void statistics(std::span<float> values);

  // Rows of tables (client_rows.cc); ids in any order, none twice. The rows of one table in a step are
  // limited to one message for each part: a little less than 64 times TableSpec::message_rows().
  void pull_rows(int table, std::span<const std::uint64_t> ids, std::span<float> values);
  void push_rows(int table, std::int64_t ticket, double lr, std::span<const std::uint64_t> ids,
                 std::span<const float> gradients);
  struct TableCounts {
    std::int64_t rows = 0, gone = 0;  // present; removed to make room
    bool is_open = true;              // false: rows of an earlier run are still to come
  };
  // Calls `each` with all records of a table, many at a time; when it is empty they are only counted.
  TableCounts list_rows(int table, const std::function<void(std::span<const std::byte>)>& each);
  // Loads records of an earlier run; open_rows() at the end makes them available to all replicas.
  void load_rows(int table, std::span<const std::byte> records);
  void open_rows(int table);

  // The step for which lanes met when this replica joined (sync).
  std::int64_t meeting_step() const { return meeting_step_; }
  std::size_t slices() const { return options_.spec.slices(); }
  const std::vector<std::int64_t>& versions() const { return versions_; }
  // Versions of the slices of its share, from the answers to the last push.
  const std::vector<std::int64_t>& answered() const { return answered_; }
  // The slice had done the step before that push arrived (sync).
  bool was_late(std::int64_t slice) const { return late_.contains(slice); }
  const ServerMap& map() const { return map_; }
  // Adopts the map of another client of the same servers. For a client that was idle for a while: all servers
  // that it knew may be gone.
  void follow(const ServerMap& map) {
    if (map.epoch > map_.epoch) adopt(map);
  }

 private:
  using Kind = comm::StoreRequest::Kind;
  using Clock = std::chrono::steady_clock;
  struct Server;
  struct Flight;
  // The place of a message in shared memory until it is answered.
  struct Room {
    std::span<std::byte> bytes{};
    std::int64_t slice = -1;
    std::shared_ptr<std::set<std::int64_t>> in_use{};  // of the connection
    void give_back() {
      if (in_use) in_use->erase(slice);
    }
  };
  struct Sent {
    std::size_t part = 0;  // of a Flight
    comm::ExchangeClient::Pending pending{};
    Room room{};
  };
  // One message of several that are sent together.
  struct Part {
    comm::StoreRequest message{};
    std::int64_t slice = -1;  // -1: to the ticket scheduler
    std::span<const std::byte> payload{};
    std::span<std::byte> into{};
  };
  Flight start(std::vector<Part> parts);
  void launch(Flight& flight, const std::vector<std::size_t>& parts);
  void collect(Flight& flight, Clock::duration patience);
  void settle(Flight& flight, Clock::duration patience);
  std::vector<comm::StoreAnswer> exchange(std::vector<Part> parts, Clock::duration patience);
  comm::StoreAnswer exchange_one(Part part, Clock::duration patience);
  Sent send(Part& part);
  void ask_again(std::deque<Asked>& asked);
  bool look_for_map();
  void await_map(Clock::time_point give_up);
  comm::Answer await(comm::ExchangeClient::Pending& pending, Clock::duration patience);
  void require_going_on();
  void adopt(const ServerMap& map);
  void reconnect();
  bool is_connected() const;
  Error without_answer(const Error& why) const;
  void connect_to(const std::vector<comm::ControlAddress>& addresses, std::chrono::milliseconds deadline);
  Server& connect(int id, const std::string& target, std::chrono::milliseconds deadline);
  Server* holder(const Part& part);
  void open(Server& server, const float* initial);
  comm::StoreRequest message(Kind kind) const;
  std::size_t offset(std::int64_t slice) const { return std::size_t(slice) * comm::kSliceElements; }
  std::size_t length(std::int64_t slice) const;
  // Rounded up: the first share has a slice, so that its client notices every change of servers.
  std::int64_t share_begin(int share) const {
    return (std::int64_t(slices()) * share + options_.shares - 1) / options_.shares;
  }
  Room take_room(Server& server, const Part& part);
  Handle handle_of(Slices slices, std::vector<Part> parts, std::span<float> values);
  struct RowMessage;
  struct RowFlight;
  class RowWork;
  std::vector<RowMessage> cut_rows(const RowWork& work, std::uint64_t parts) const;
  void send_rows(RowWork& work, RowMessage message);
  void settle_rows(RowWork& work, int server);
  void run_rows(RowWork& work);
  comm::StoreAnswer ask_part(int number, comm::StoreRequest message, std::span<const std::byte> payload,
                             std::span<std::byte> into);
  std::vector<std::int32_t> in_slice(const std::vector<std::int32_t>& parameters, std::int64_t slice) const;

  Options options_;
  ServerMap map_;
  std::map<int, std::unique_ptr<Server>> servers_;  // connected servers, by id
  std::vector<std::int64_t> versions_;              // of slices, as this replica has them
  std::vector<std::int64_t> answered_;
  std::set<std::int64_t> late_;  // slices
  std::int64_t meeting_step_ = 0;
  bool has_joined_ = false;
  Clock::time_point next_reconnect_{};
  Clock::time_point heard_{}, next_look_{};  // when a server last answered; when to ask again
  std::int64_t clock_ = -1;  // steps done, as the ticket scheduler counts them; -1: not told yet
};

}  // namespace distbelief::server
