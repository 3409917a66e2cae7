#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct evp_md_ctx_st;
struct XXH3_state_s;

namespace distbelief {

// SHA-256 over bytes given in pieces; identifies weights. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  void update(const void* data, std::size_t bytes);
  // 64 lower-case hex digits for the bytes so far. update() may follow.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// 64-bit XXH3: detects damage at memory speed. No protection against tampering.
std::uint64_t xxh3(const void* data, std::size_t bytes);

// The same value over bytes given in pieces. Not thread-safe.
class Xxh3 {
 public:
  Xxh3();
  void update(const void* data, std::size_t bytes);
  std::uint64_t value() const;  // for the bytes so far; update() may follow

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace distbelief
