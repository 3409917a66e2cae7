#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct evp_md_ctx_st;
struct XXH3_state_s;

namespace distbelief {

// SHA-256 over bytes given in pieces; what identifies weights. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  void update(const void* data, std::size_t bytes);
  // 64 lower-case digits for everything given so far. More may follow.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// XXH3, 64 bits: notices damage at the speed of memory. No protection against intent.
std::uint64_t xxh3(const void* data, std::size_t bytes);

// The same value over bytes given in pieces. Not thread-safe.
class Xxh3 {
 public:
  Xxh3();
  void update(const void* data, std::size_t bytes);
  std::uint64_t value() const;  // of everything given so far; more may follow

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace distbelief
