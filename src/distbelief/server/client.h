#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/comm/rpc/store.h"
#include "distbelief/server/key_map.h"

namespace distbelief::server {

// A replica's end: the whole of a job's parameters, wherever its slices are. Used by one thread. All of it
// throws Error: kUnavailable when a server is gone, kTimeout, or what a server refused.
class Client {
 public:
  struct Options {
    std::vector<comm::ControlAddress> servers{};  // in their order: it decides which slices each has
    comm::SpaceSpec spec{};
    std::int32_t replica = 0;
    std::int64_t incarnation = 1;
    bool shares_memory = true;  // with servers on this host
    std::chrono::milliseconds deadline{120'000};
  };
  // Connects, and submits the job or joins it. Whoever comes first brings the first values.
  Client(Options options, const float* initial);

  // A gradient on its way.
  struct Push {
    std::int64_t ticket = 0;
    double lr = 0;
    std::int64_t first_lane = 0, end_lane = 0;
    std::int64_t samples = 0;
    std::int64_t step_samples = 0;
    std::vector<std::int32_t> untouched{};
  };
  // Sends the gradient of the whole arena and gets the new parameters in its place, slice by slice as they
  // come. `values` empty: only sends. Gives whether any slice had it before.
  bool push_pull(const Push& push, std::span<const float> gradients, std::span<float> values);
  // All parameters: the newest, or those of a version (sync). Gives the least version of a slice.
  std::int64_t pull(std::span<float> values, std::optional<std::int64_t> version = {});

  // Done with these tickets; asks for another. The handle may be waited for later.
  using Handle = comm::ExchangeClient::Pending;
  Handle ask_ticket(const std::vector<std::int64_t>& done);
  std::optional<std::int64_t> ticket_of(Handle& handle);  // blocks; nothing: all work is done
  // Blocks until this replica may begin another step (bounded).
  void begin_step(const std::vector<std::int64_t>& done);
  // Gives rows of lanes to all; the mean over the lanes of all replicas is in `mean`.
  void meet(std::int64_t step, std::int64_t first_lane, std::int64_t end_lane,
            const std::vector<std::int32_t>& empty, std::span<const float> rows, std::span<float> mean);
  // The mean of a step that is over (sync), for a replica that comes again.
  void meet_again(std::int64_t step, std::span<float> mean);
  void leave(const std::vector<std::int64_t>& done);

  // The step that lanes met for when this replica came (sync).
  std::int64_t meeting_step() const { return meeting_step_; }
  std::size_t slices() const { return options_.spec.slices(); }
  const std::vector<std::int64_t>& versions() const { return versions_; }

 private:
  struct Server {
    std::unique_ptr<comm::ExchangeClient> exchange;
    KeyRange range;
    std::uint64_t space = 0;
  };
  void open(const float* initial);
  comm::StoreRequest message(comm::StoreRequest::Kind kind, const Server& server) const;
  Server& server_of(std::int64_t slice);
  std::size_t offset(std::int64_t slice) const { return std::size_t(slice) * comm::kSliceElements; }
  std::size_t length(std::int64_t slice) const;
  std::vector<std::int32_t> in_slice(const std::vector<std::int32_t>& parameters, std::int64_t slice) const;
  std::span<std::byte> shared_room(Server& server, std::int64_t slice);

  Options options_;
  std::vector<Server> servers_;
  std::int64_t meeting_step_ = 0;
  std::vector<std::int64_t> versions_;  // of slices, that this replica has
};

}  // namespace distbelief::server
