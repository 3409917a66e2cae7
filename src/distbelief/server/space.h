#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/comm/rpc/store.h"
#include "distbelief/server/dealer.h"
#include "distbelief/server/key_map.h"
#include "distbelief/server/lane_meeting.h"
#include "distbelief/server/slice.h"

namespace distbelief::server {

// Throws Error(kBadInput) for a job that no server could keep: parameters outside its arena or over each
// other, an update rule that needs norms of whole parameters, a mode that there is not.
void require_sound(const comm::SpaceSpec& spec);
// Bytes that a server with these slices keeps for it.
std::size_t bytes_of(const comm::SpaceSpec& spec, KeyRange range);

// What one server keeps for one job: its slices, and on the first server the desk where work is dealt out
// and lanes meet. Thread safe. A request is answered at once, or kept until others have come: nobody waits
// on a thread.
class Space {
 public:
  using Request = comm::ExchangeServer::Request;
  struct Options {
    std::uint64_t id = 0;
    comm::SpaceSpec spec{};  // sound
    KeyRange range{};        // slices that are here
    bool has_desk = false;
    std::filesystem::path log{};
  };
  explicit Space(Options options);
  ~Space();

  const comm::SpaceSpec& spec() const { return options_.spec; }
  bool is_filled();
  std::int64_t meeting_step();  // that lanes meet for
  // Takes the request, unless it throws: Error(kBadInput) for what cannot be, before anything has changed.
  void handle(const comm::StoreRequest& message, Request& request);
  // This connection has ended: its replica's tickets go to others.
  void gone(std::uint64_t connection);

 private:
  struct Waiting {
    comm::StoreRequest message;
    Request request;
  };
  // A slice and what its step waits for (sync).
  struct Held {
    explicit Held(Slice::Options options) : slice(std::move(options)) {}
    Slice slice;
    std::mutex mutex;
    std::vector<Waiting> parts;
    std::vector<float> sum;
  };

  Held& held(std::int64_t slice);
  std::span<const float> payload_for(const Held& held, const comm::StoreRequest& message,
                                     const Request& request) const;
  void fill(const comm::StoreRequest& message, Request& request);
  void push(const comm::StoreRequest& message, Request& request);
  void push_part(Held& held, const comm::StoreRequest& message, Request& request);
  void finish_step(Held& held);
  void pull(const comm::StoreRequest& message, Request& request);
  void take(const comm::StoreRequest& message, Request& request);
  void meet(const comm::StoreRequest& message, Request& request);
  void leave(const comm::StoreRequest& message, Request& request);
  void enter(const comm::StoreRequest& message, const Request& request);
  void serve();
  void require_desk() const;

  Options options_;
  std::unique_ptr<compute::Optimizer> rule_;
  std::unique_ptr<UpdateLog> log_;
  std::vector<std::unique_ptr<Held>> slices_;  // of the range

  std::mutex desk_;  // guards what follows
  Dealer dealer_;
  LaneMeeting meeting_;
  struct Seat {
    std::int64_t incarnation = 0;
    std::uint64_t connection = 0;
  };
  std::map<int, Seat> seats_;  // of replicas, at the dealer
  std::vector<Waiting> takers_, beginners_, meeters_;
};

}  // namespace distbelief::server
