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

// A replica's end: the whole of a job's parameters, wherever its slices are. When a server is lost it asks
// the others who has them now and asks again there: what was done already counts once. Used by one thread.
// All of it throws Error: kUnavailable or kTimeout when no server has answered for `deadline`, or what a
// server refused. Waits that other replicas may make long (for tickets, for a turn, for room) last as long as
// servers say that they live.
class Client {
 public:
  struct Options {
    std::vector<comm::ControlAddress> servers{};  // where a map can be had; certificates of the first for all
    std::string host{};                           // this one's name, as in maps
    comm::SpaceSpec spec{};
    std::int32_t replica = 0;
    std::int64_t incarnation = 1;
    // Several clients of one replica may push and pull a share of the slices each; the first, which the
    // others come after, brings the first values of all.
    int share = 0;
    int shares = 1;
    bool shares_memory = true;  // with servers on this host
    std::chrono::milliseconds deadline{120'000};
    // Asked during waits that have no end, for tickets and for room: when it gives false they throw
    // Error(kTimeout). May be empty.
    std::function<bool()> goes_on{};
    // Where servers listen by now, or nothing; asked at first and when none of those that it knows answers,
    // for all may have been replaced while it did not ask. May be empty.
    std::function<std::vector<comm::ControlAddress>()> find_servers{};
  };
  // Connects, and submits the job or joins it. Whoever comes first brings the first values.
  Client(Options options, const float* initial);
  ~Client();
  Client(Client&&) noexcept;

  // A gradient on its way.
  struct Push {
    std::int64_t ticket = 0;
    double lr = 0;
    std::int64_t first_lane = 0, end_lane = 0;
    std::int64_t samples = 0;
    std::int64_t step_samples = 0;
    std::vector<std::int32_t> untouched{};
    double loss = 0;  // of a portion (sandblaster)
  };
  // The slices that are this client's share, and the elements of the arena that they are.
  std::int64_t first_slice() const { return share_begin(options_.share); }
  std::int64_t end_slice() const { return share_begin(options_.share + 1); }
  comm::SpaceSpec::Stretch own() const { return elements_of(share()); }
  // Whole slices of the arena; by default those of its share. What goes with them, gradients and values, is
  // as long as their elements.
  struct Slices {
    std::int64_t begin = 0, end = 0;
  };
  Slices share() const { return {first_slice(), end_slice()}; }
  comm::SpaceSpec::Stretch elements_of(Slices slices) const;

  class Handle;  // client_handle.h
  // Send, and do not wait for the answers, but for their turn when more than 16 messages are under way to a
  // server. What is given to them must stay as it is, and stay there, until the handle has been waited for or
  // is gone.
  Handle start_push(const Push& push, std::span<const float> gradients, std::optional<Slices> of = {});
  Handle start_pull(std::span<float> values, std::optional<std::int64_t> version = {},
                    std::optional<Slices> of = {});
  Handle start_push_pull(const Push& push, std::span<const float> gradients, std::span<float> values,
                         std::optional<Slices> of = {});
  // The same, and wait. Sends a gradient. Gives whether any slice had it before.
  bool push(const Push& push, std::span<const float> gradients);
  // ... and gets the new values of these elements. `values` empty: only sends.
  bool push_pull(const Push& push, std::span<const float> gradients, std::span<float> values);
  // These parameters: the newest, or those of a version (sync). Gives the least version of a slice.
  std::int64_t pull(std::span<float> values, std::optional<std::int64_t> version = {});

  // A question under way to whoever deals out the work.
  class Asked {
   public:
    bool ready() const { return is_sent_ && pending_.ready(); }

   private:
    friend class Client;
    comm::StoreRequest message_{};
    comm::ExchangeClient::Pending pending_;
    bool is_sent_ = false;  // else nobody was there to ask
  };
  // Done with these tickets; asks for another, to be waited for later.
  Asked ask_ticket(const std::vector<std::int64_t>& done);
  // Blocks until one of these is answered, and takes that one out; nothing: all work is done. A question that
  // was lost with its server is asked again, after newer ones: who waited for just that one might wait for a
  // ticket that he has already.
  std::optional<std::int64_t> next_ticket(std::deque<Asked>& asked);
  // The same without waiting: nothing while none is answered. One that was lost stays lost until
  // next_ticket().
  struct Dealt {
    std::optional<std::int64_t> ticket{};  // nothing: all work is done
  };
  std::optional<Dealt> ready_ticket(std::deque<Asked>& asked);
  // Done with these, and nothing asked: what others wait for.
  void tell_done(const std::vector<std::int64_t>& done);
  // Done with these tickets; blocks until this replica may begin the step of another (bounded). Gives whether
  // what it fetched before is too old for it: then pull.
  bool begin_step(std::int64_t ticket, const std::vector<std::int64_t>& done);
  // Gives rows of lanes to all; the mean over the lanes of all replicas is in `mean`. Gives the step that it
  // is of: a later one when steps do not wait for everyone and this came too late.
  std::int64_t meet(std::int64_t step, std::int64_t first_lane, std::int64_t end_lane,
                    const std::vector<std::int32_t>& empty, std::span<const float> rows,
                    std::span<float> mean);
  // The mean of a step that is over (sync), for a replica that comes again; or of a later one, as above.
  void meet_again(std::int64_t step, std::span<float> mean);
  // Done with these tickets; takes no more part until it asks for another: those that it has, and that it has
  // asked for, go to others, and nobody waits for it. Then it is where the slowest is.
  void rest(std::vector<std::int64_t> done, std::deque<Asked>& asked);

  // Sandblaster (client_vectors.cc). A command, done on every slice where it lives; gives its numbers over
  // all of them.
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations);
  // What the coordinator knows after so many evaluations.
  struct Coordinator {
    std::int64_t evaluation = 0;
    std::vector<double> numbers{};
    bool ends = false;  // there are no more
  };
  Coordinator coordinator();
  // It knows more: the next portions are dealt out, or nothing more is.
  void advance(const Coordinator& coordinator);

  // Decomposed models (client_inputs.cc). Brings the input of another sub-network's ticket, whose client this
  // is: blocks while there is no room. What was there already counts.
  void put_input(std::int64_t ticket, std::span<const std::byte> bytes);
  // The input of a ticket that this replica has; nothing: another has done it meanwhile.
  std::optional<std::vector<std::byte>> input(std::int64_t ticket);
  // Blocks until all tickets below this are done; 0: all.
  void await_done(std::int64_t ticket = 0);
  // Running statistics of this client's sub-network after so many steps; the latest count. Those that there
  // are come as soon as there are some.
  void put_statistics(std::int64_t steps, std::span<const float> values);
  void statistics(std::span<float> values);

  // Rows of tables (client_rows.cc); ids in any order, none twice. A table's rows of a step may be as many as
  // fit into one message for each part: TableSpec::message_rows() times 64 and a bit less.
  void pull_rows(int table, std::span<const std::uint64_t> ids, std::span<float> values);
  void push_rows(int table, std::int64_t ticket, double lr, std::span<const std::uint64_t> ids,
                 std::span<const float> gradients);
  struct TableCounts {
    std::int64_t rows = 0, gone = 0;  // there are; made place for others
    bool is_open = true;              // else rows of an earlier run are still to come
  };
  // Calls `each` with all records of a table, many at a time; when it is empty they are only counted.
  TableCounts list_rows(int table, const std::function<void(std::span<const std::byte>)>& each);
  // Records of an earlier run; at the end open_rows(), for everyone to use them.
  void load_rows(int table, std::span<const std::byte> records);
  void open_rows(int table);

  // The step that lanes met for when this replica came (sync).
  std::int64_t meeting_step() const { return meeting_step_; }
  std::size_t slices() const { return options_.spec.slices(); }
  const std::vector<std::int64_t>& versions() const { return versions_; }
  // Of the slices of its share, as servers told them when they answered the last push.
  const std::vector<std::int64_t>& answered() const { return answered_; }
  // The slice had done the step before that push came (sync).
  bool was_late(std::int64_t slice) const { return late_.contains(slice); }
  const ServerMap& map() const { return map_; }
  // What another client of the same servers knows, for one that has not been used for a while: all servers
  // that it knew may be gone.
  void follow(const ServerMap& map) {
    if (map.epoch > map_.epoch) adopt(map);
  }

 private:
  using Kind = comm::StoreRequest::Kind;
  using Clock = std::chrono::steady_clock;
  struct Server;
  struct Flight;
  // What a message in shared memory lies in, until it is answered.
  struct Room {
    std::span<std::byte> bytes{};
    std::int64_t slice = -1;
    std::shared_ptr<std::set<std::int64_t>> in_use{};  // of the connection
    void give_back() {
      if (in_use) in_use->erase(slice);
    }
  };
  struct Sent {
    std::size_t part = 0;  // of several
    comm::ExchangeClient::Pending pending{};
    Room room{};
  };
  // One message of several that go out together.
  struct Part {
    comm::StoreRequest message{};
    std::int64_t slice = -1;  // -1: to the desk
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
  // Rounded up: the first share has a slice, so that its client hears of every change of servers.
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
  std::map<int, std::unique_ptr<Server>> servers_;  // by id, that we are connected to
  std::vector<std::int64_t> versions_;              // of slices, that this replica has
  std::vector<std::int64_t> answered_;
  std::set<std::int64_t> late_;  // slices
  std::int64_t meeting_step_ = 0;
  bool has_joined_ = false;
  Clock::time_point next_reconnect_{};
  Clock::time_point heard_{}, next_look_{};  // when any server last answered; when to ask whether they live
  std::int64_t clock_ = -1;                  // steps done, as the desk counts them; -1: it has not said
};

}  // namespace distbelief::server
