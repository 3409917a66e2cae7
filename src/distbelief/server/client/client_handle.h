#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distbelief/server/client/client.h"

namespace distbelief::server {

// A push or pull in flight. There may be several, for the same or different slices, waited for in any order.
// Used by the thread of its client, which must outlive it and must not be moved before it ends.
class [[nodiscard]] Client::Handle {
 public:
  struct Result {
    bool repeated = false;     // a slice had the push before, or did the step without it
    std::int64_t version = 0;  // the least of the slices, afterwards
  };
  ~Handle();  // without wait(): the push may or may not count, the values may or may not be there
  Handle(Handle&&) noexcept;
  Handle& operator=(Handle&&) noexcept;

  // wait() would not block, unless a server was lost and its part has to be asked of others.
  bool ready() const;
  // Call once. Blocks until all slices have answered, at most `deadline` from now. Messages to a lost server
  // are sent again to the new holders of its slices. Throws as Client does.
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
