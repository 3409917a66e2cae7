#include "distbelief/comm/rpc/certificates.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::comm {
namespace {

namespace fs = std::filesystem;
using std::chrono::days;

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate read_certificate(const fs::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "r"), std::fclose);
  return {file ? PEM_read_X509(file.get(), nullptr, nullptr, nullptr) : nullptr, X509_free};
}

int days_left(const X509& certificate) {
  int days = 0, seconds = 0;
  ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(&certificate));
  return days + (seconds > 0 ? 1 : 0);
}

TEST(Certificates, EachRoleIsSignedByTheAuthorityAndValidAsLongAsAsked) {
  const ScratchFolder scratch;
  make_certificates(scratch.path(), days(30));
  const Certificate ca = read_certificate(scratch.path() / "ca.pem");
  ASSERT_TRUE(ca);
  for (const char* role : {"supervisor", "worker", "operator"}) {
    const Certificate certificate = read_certificate(scratch.path() / (std::string(role) + ".pem"));
    ASSERT_TRUE(certificate) << role;
    EXPECT_EQ(X509_verify(certificate.get(), X509_get0_pubkey(ca.get())), 1) << role;
    EXPECT_EQ(days_left(*certificate), 30) << role;
    const bool is_supervisor = std::string(role) == "supervisor";
    EXPECT_EQ(X509_check_host(certificate.get(), "distbelief-supervisor", 0, 0, nullptr),
              is_supervisor ? 1 : 0);
  }
}

TEST(Certificates, OnlyTheOwnerCanReadKeys) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "new" / "certificates";
  make_certificates(folder, days(1));
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  for (const char* name : {"ca.key", "supervisor.key", "server.key", "worker.key", "operator.key"})
    EXPECT_EQ(fs::status(folder / name).permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << name;
}

TEST(Certificates, OverwriteNothingAndLeaveNothingBehind) {
  const ScratchFolder scratch;
  write_text(scratch.path() / "operator.pem", "mine");
  try {
    make_certificates(scratch.path(), days(1));
    FAIL() << "overwrote operator.pem";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("operator.pem"), std::string::npos) << error.message();
  }
  EXPECT_EQ(scratch.entries(), 1u);
  EXPECT_EQ(read_text(scratch.path() / "operator.pem"), "mine");
}

TEST(Certificates, RefuseAValidityOfNoDays) {
  const ScratchFolder scratch;
  EXPECT_THROW(make_certificates(scratch.path(), days(0)), Error);
  EXPECT_EQ(scratch.entries(), 0u);
}

}  // namespace
}  // namespace distbelief::comm
