#include "distbelief/base/hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <array>
#include <iterator>
#include <new>

#include "distbelief/base/error.h"

namespace distbelief {
namespace {

void check_openssl(int result) {
  if (result != 1) throw Error(ErrorCode::kInternal, "OpenSSL could not compute a SHA-256 digest");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_) throw std::bad_alloc();
  check_openssl(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(const void* data, std::size_t bytes) {
  check_openssl(EVP_DigestUpdate(context_.get(), data, bytes));
}

std::string Sha256::hex() const {
  // Finishing ends a context, so finish a copy.
  std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  if (!copy) throw std::bad_alloc();
  check_openssl(EVP_MD_CTX_copy_ex(copy.get(), context_.get()));
  std::array<unsigned char, 32> digest;
  check_openssl(EVP_DigestFinal_ex(copy.get(), digest.data(), nullptr));
  std::string text;
  for (unsigned char byte : digest) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

std::uint64_t xxh3(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

void Xxh3::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Xxh3::update(const void* data, std::size_t bytes) { XXH3_64bits_update(state_.get(), data, bytes); }

std::uint64_t Xxh3::value() const { return XXH3_64bits_digest(state_.get()); }

}  // namespace distbelief
