#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/comm/rpc/store.h"
#include "distbelief/server/scheduler/dealer.h"
#include "distbelief/server/scheduler/freshness.h"
#include "distbelief/server/service/budget.h"
#include "distbelief/server/service/roles.h"
#include "distbelief/server/shard/input_window.h"
#include "distbelief/server/shard/lane_meeting.h"
#include "distbelief/server/shard/slice.h"
#include "distbelief/server/shard/table.h"

namespace distbelief::server {

inline constexpr std::size_t kMostNameBytes = 256;  // of a job

// Throws Error(kBadInput) for a job that no server can keep: parameters outside its arena or overlapping, an
// update rule that needs norms of whole parameters, an unknown mode.
void require_sound(const comm::SpaceSpec& spec);

// Bytes that a server with these roles keeps for the job: slices, bounded tables, inputs. Counted as they
// come: rows of unbounded tables, the replicas' copies where delay is compensated, sums of portions beyond a
// few, and parts of a synchronous step that wait for others (the most that ever waited at a time).
std::size_t bytes_for(const comm::SpaceSpec& spec, const Roles& roles);
// Most bytes that a client of the job shares with a server of its host.
std::size_t shared_bytes_for(const comm::SpaceSpec& spec);

// The job state: what one server keeps for one job. It holds slices, a share of the tables' rows and, where
// it is the primary of the first part, the ticket scheduler, at which lanes meet too. Every change is handed
// to the backups, and answered when they have it. Thread safe; pending work keeps it alive. A request is
// answered at once, or kept until others have come: no thread blocks.
class Space : public std::enable_shared_from_this<Space> {
 public:
  using Request = comm::ExchangeServer::Request;
  using Clock = std::chrono::steady_clock;
  struct Options {
    comm::SpaceSpec spec{};  // checked by require_sound
    std::filesystem::path log{};
    std::shared_ptr<Budget> budget{};  // of this job; includes bytes_for() its spec and roles. Null: no limit
  };
  Space(Options options, const std::shared_ptr<const Roles>& roles);
  ~Space();

  const comm::SpaceSpec& spec() const { return options_.spec; }
  bool is_filled();
  // Whether replicas may use it: the server had room for it, or the job was running when it came.
  bool is_granted() const { return granted_; }
  void grant() { granted_ = true; }
  std::size_t bytes() const { return options_.budget ? options_.budget->taken() : 0; }
  // A connection speaks for the replica that it first names. Throws Error(kBadInput) for another one.
  void meet_speaker(std::uint64_t connection, std::int32_t replica);
  bool has_speakers();
  // The time since a sign that the job lives.
  void renew_lease() { renewed_ = Clock::now(); }
  Clock::duration silence() const { return Clock::now() - renewed_.load(); }
  std::int64_t meeting_step();                                // the step for which lanes meet
  void set_roles(const std::shared_ptr<const Roles>& roles);  // one caller at a time
  // The job is over: its bytes no longer count, though pending requests may keep it alive.
  void close();
  // Hands everything of which it is primary to a backup that is being filled. Blocks until that one has the
  // slices and rows.
  void fill(int newcomer);

  // Takes the request, unless it throws: Error(kBadInput) for an invalid one, kAborted for one that belongs
  // to another server, before anything has changed.
  void handle(const comm::StoreRequest& message, Request& request);
  // This connection has ended: its replica's tickets go to others.
  void gone(std::uint64_t connection);

 private:
  struct Waiting {
    comm::StoreRequest message;
    Request request;
  };
  // The coordinator's state after an evaluation (sandblaster).
  struct Coordinator {
    std::int64_t evaluation = 0;
    std::vector<double> numbers{};
    bool ends = false;
  };
  // A slice and the requests that wait for it.
  struct Held {
    explicit Held(Slice::Options options) : slice(std::move(options)) {}
    Slice slice;
    std::mutex mutex;            // guards the rest, and the order of updates and of items handed over
    int filled = kNobody;        // the newcomer that has the slice
    bool was_primary = false;    // in the roles before
    bool taken_over = false;     // another server was its primary before
    std::vector<Waiting> parts;  // of a step (sync)
    std::size_t part_rooms = 0;  // in the budget: the most parts that waited at a time
    std::vector<float> sum;      // of `parts`
    std::map<std::int64_t, Waiting> early;     // updates that arrived before their turn, by version (backup)
    std::map<int, std::vector<float>> pieces;  // of a state being installed (backup)
  };

  void require_own_name(const comm::StoreRequest& message, std::uint64_t connection);
  void require_progress(const comm::StoreRequest& message, std::uint64_t connection,
                        const std::function<bool()>& is_repeated);
  void note_progress(std::uint64_t connection, bool is_repeated);
  void note_claims(std::uint64_t connection, const std::vector<std::int64_t>& done, bool is_repeated);
  void note_own_work(std::uint64_t connection, std::int64_t ticket, bool is_repeated);
  bool is_speaking(std::int32_t replica);
  std::optional<std::int32_t> forget_speaker(std::uint64_t connection);
  void require_copy(Held& held, std::int32_t replica) const;
  void require_sum(Held& held, const compute::VectorSlice::Portion& portion) const;
  void require_part_room(Held& held, const comm::StoreRequest& message) const;
  std::string has_no_room(const std::string& why) const;
  void count_fixed(std::size_t bytes);
  void require_parameters(const std::vector<std::int32_t>& parameters) const;
  void require_tickets(const std::vector<std::int64_t>& tickets) const;
  void require_work(const comm::StoreRequest& message);
  bool has_gradient(std::int64_t ticket);
  bool is_coordinated(std::int64_t ticket);
  void require_ranges(const std::vector<std::int64_t>& ranges) const;
  Held& held(std::int64_t slice);
  Held* known(std::size_t slice);  // null: it was never here
  Held& held_as_primary(std::int64_t slice);
  void require_primary(std::int64_t slice) const;
  void follow(const Roles& roles, Held& held);
  std::shared_ptr<const Roles> roles() const;
  std::span<const float> payload_for(const Held& held, const comm::StoreRequest& message,
                                     const Request& request) const;
  void fill_first(const comm::StoreRequest& message, Request& request);
  void push(const comm::StoreRequest& message, Request& request);
  void answer_push(Held& held, Waiting& waiting, comm::StoreAnswer told);
  bool has_push(Held& held, const comm::StoreRequest& message) const;
  void push_part(Held& held, const comm::StoreRequest& message, Request& request);
  void require_base(Held& held, const comm::StoreRequest& message) const;
  void require_fits(const Held& held, const comm::StoreRequest& message) const;
  void require_own_lanes(const comm::StoreRequest& message) const;
  const float* sum_of_step(Held& held) const;
  void finish_step(Held& held, const float* sum);
  void pull(const comm::StoreRequest& message, Request& request);

  // space_vectors.cc: evaluations and commands (sandblaster).
  void push_portion(Held& held, const comm::StoreRequest& message, Request& request);
  void command(const comm::StoreRequest& message, Request& request);
  void replay(Held& held, Waiting& waiting);
  void give_coordinator(const comm::StoreRequest& message, Request& request);
  void advance(const comm::StoreRequest& message, Request& request);
  void begin_evaluation(std::int64_t evaluation, std::int32_t replica);
  void keep(const comm::StoreRequest& message, Request& request);
  void take_coordinator(const comm::StoreRequest& message);
  void hand_over_coordinator(const Coordinator& known, const std::function<void()>& done);
  void take_over_evaluations();
  std::optional<std::int64_t> take_portion(int replica);
  void handle_rows(const comm::StoreRequest& message, Request& request);

  // space_backup.cc: messages between servers.
  bool takes(const comm::StoreRequest& message, const Request& request) const;
  void require_sender(const comm::StoreRequest& message, const Request& request,
                      const ServerMap::Part& part) const;
  void replicate(const comm::StoreRequest& message, Request& request);
  void apply_early(Held& held);
  void apply_next(Held& held, Waiting& waiting);
  void require_size(const Held& held, const comm::StoreRequest& message, const Request& request) const;
  void install(const comm::StoreRequest& message, Request& request);
  void hand_over(Held& held, const Gradient& gradient, const Slice::Applied& applied,
                 std::shared_ptr<const void> owner, const std::function<void()>& done);
  void fill_slice(Held& held, int newcomer, const std::function<void()>& done);
  void hand_over_state(Held& held, const std::vector<std::shared_ptr<BackupLink>>& links,
                       const std::function<void()>& done);
  void tell_all(const std::vector<std::shared_ptr<BackupLink>>& links, const BackupLink::Item& item,
                const std::function<void()>& done);

  // space_desk.cc: the ticket scheduler.
  void take(const comm::StoreRequest& message, Request& request);
  void hear_done(const comm::StoreRequest& message, Request& request);
  void note_done(const comm::StoreRequest& message, const Request& request);
  std::vector<std::int64_t> count_done(const comm::StoreRequest& message);
  void meet(const comm::StoreRequest& message, Request& request);
  void leave(const comm::StoreRequest& message, Request& request);
  bool enter(const comm::StoreRequest& message, const Request& request);
  void let_go(std::int32_t replica, const std::vector<std::int64_t>& done = {});
  void answer_in_turn(Request request, const comm::StoreAnswer& told);
  void drop_waiting(const std::function<bool(const Waiting&)>& is_unwanted);
  void require_clock(const comm::StoreRequest& message) const;
  void serve();
  void let_begin(Waiting& beginner);
  void tell_end(Request request, std::int64_t clock);
  void follow_desk(const Roles& roles);
  void require_desk();
  void give_mean(Request& request, std::int64_t asked);
  void tell_deals(const std::vector<std::int64_t>& done, std::int32_t replica);
  void hand_over_mean(std::int64_t step, const std::function<void()>& done);
  void learn(const comm::StoreRequest& message, Request& request);
  void learn_clock(const comm::StoreRequest& message);
  void fill_desk(int newcomer);

  // space_inputs.cc: inputs of a decomposed model's tickets, kept with the ticket scheduler.
  void put_input(const comm::StoreRequest& message, Request& request);
  void take_input(Waiting waiting);
  void give_input(const comm::StoreRequest& message, Request& request);
  void await_done(const comm::StoreRequest& message, Request& request);
  void keep_input(const comm::StoreRequest& message, Request& request);
  void require_inputs() const;
  void serve_inputs();
  void drop_silent(std::int64_t ticket);
  void fill_inputs(const std::shared_ptr<BackupLink>& link);
  void put_statistics(const comm::StoreRequest& message, Request& request);
  void give_statistics(Request& request);
  void require_statistics(const comm::StoreRequest& message, const Request& request) const;
  void take_statistics(std::int64_t version, std::span<const float> values);

  Options options_;
  std::unique_ptr<compute::Optimizer> rule_;
  std::unique_ptr<UpdateLog> log_;
  mutable std::mutex structure_;               // guards slices_ and roles_
  std::vector<std::unique_ptr<Held>> slices_;  // by number; null: not here
  std::shared_ptr<const Roles> roles_;
  std::vector<std::unique_ptr<Table>> tables_;  // by number
  std::size_t fixed_bytes_;                     // of the budget, for the present roles

  std::mutex speakers_mutex_;
  struct Speaker {
    std::int32_t replica = 0;
    std::int64_t repeats = 0;   // pushes and claims of finished work, in a row
    std::int64_t latest = -1;   // ticket of a push that others may have done too
    std::int64_t claimed = -1;  // the latest ticket reported done
  };
  std::map<std::uint64_t, Speaker> speakers_;  // by connection
  std::atomic<Clock::time_point> renewed_{Clock::now()};
  std::atomic<bool> granted_{false};

  std::mutex desk_;  // guards the members below
  Dealer dealer_;
  Freshness freshness_;
  LaneMeeting meeting_;
  struct Seat {
    std::int64_t incarnation = 0;
    std::uint64_t connection = 0;
  };
  std::map<int, Seat> seats_;  // of replicas, at the dealer
  std::vector<Waiting> takers_, beginners_, meeters_;
  Coordinator coordinator_;
  InputWindow window_;
  std::vector<float> statistics_;  // of a sub-network
  std::int64_t statistics_version_ = -1;
  std::vector<Waiting> putters_, enders_;  // waiting for room in window_, and for the end
  bool has_desk_ = false;                  // it is the scheduler and took over earlier deals
  int desk_filled_ = kNobody;              // the newcomer that knows of deals and means
  std::int64_t told_ = 0;                  // deals sent to the backup
  std::shared_ptr<std::atomic<int>> telling_ = std::make_shared<std::atomic<int>>(0);  // those in flight
  std::map<int, std::pair<std::int64_t, std::int64_t>> heard_;  // by replica: map epoch, last deal heard
};

}  // namespace distbelief::server
