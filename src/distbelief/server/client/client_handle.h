#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distbelief/server/client/client.h"

namespace distbelief::server {

// A push or pull under way. Several may be, for different slices and for the same ones; they are waited for
// in any order. Used by the thread of its client, which neither goes nor is moved before it.
class [[nodiscard]] Client::Handle {
 public:
  struct Result {
    bool repeated = false;     // a slice had the push before, or the step went on without it
    std::int64_t version = 0;  // the least of the slices, after it
  };
  ~Handle();  // one that was not waited for: what was sent may count or not, values may be there or not
  Handle(Handle&&) noexcept;
  Handle& operator=(Handle&&) noexcept;

  // wait() has nothing to wait for; unless a server was lost, whose part it asks others for.
  bool ready() const;
  // Once. Blocks until all slices have answered, at most `deadline` from now on. What was under way to a
  // server that was lost is sent again to who has its slices now. Throws as Client does.
  Result wait();

 private:
  friend class Client;
  Handle(Client& client, Slices slices, std::unique_ptr<Flight> flight, std::span<float> values);

  Client* client_;
  Slices slices_;
  std::unique_ptr<Flight> flight_;
  std::span<float> values_;
};

}  // namespace distbelief::server
