#include "distbelief/comm/rpc/certificates.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/hex.h"

namespace distbelief::comm {
namespace {

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free_all>>;

constexpr std::string_view kBeginning = "-----BEGIN ";
constexpr int kSerialBits = 127;  // at most 20 bytes and positive, RFC 5280
// The certificates start this much earlier, because clocks of hosts differ a little.
constexpr std::chrono::seconds kStartsEarlier = std::chrono::hours(1);

struct Extension {
  int nid;
  std::string value;
};

struct Role {
  std::string name;
  std::string usage;       // of the key in TLS
  std::string more_names;  // alternative names besides the role
};

const std::array<Role, 4>& roles() {
  static const std::array<Role, 4> table{{{"supervisor", "serverAuth", ",DNS:distbelief-supervisor"},
                                          {"server", "serverAuth,clientAuth", ",DNS:distbelief-server"},
                                          {"worker", "clientAuth", ""},
                                          {"operator", "clientAuth", ""}}};
  return table;
}

void check(bool succeeded, std::string_view what) {
  if (succeeded) return;
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  throw Error(ErrorCode::kInternal, fmt::format("OpenSSL could not {}: {}", what, reason.data()));
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  check(key != nullptr, "make a P-256 key");
  return key;
}

void set_serial(X509& certificate) {
  const std::unique_ptr<BIGNUM, Free<BN_free>> number(BN_new());
  check(number && BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
            BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr,
        "number a certificate");
}

void set_subject(X509& certificate, const std::string& role) {
  X509_NAME* name = X509_get_subject_name(&certificate);
  const auto add = [&](const char* field, const std::string& text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.c_str());
    check(X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, bytes, -1, -1, 0) == 1,
          "name a certificate");
  };
  add("O", "DistBelief");
  add("OU", role);
  add("CN", "distbelief-" + role);
}

void set_validity(X509& certificate, std::chrono::days validity) {
  const auto days = static_cast<int>(validity.count());
  check(X509_gmtime_adj(X509_getm_notBefore(&certificate), -kStartsEarlier.count()) != nullptr &&
            X509_time_adj_ex(X509_getm_notAfter(&certificate), days, 0, nullptr) != nullptr,
        "set a certificate's validity");
}

Certificate make_certificate(const std::string& role, EVP_PKEY& key, std::chrono::days validity) {
  Certificate certificate(X509_new());
  check(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
            X509_set_pubkey(certificate.get(), &key) == 1,
        "make a certificate");
  set_serial(*certificate);
  set_subject(*certificate, role);
  set_validity(*certificate, validity);
  return certificate;
}

void sign(X509& certificate, const std::vector<Extension>& extensions, X509& issuer, EVP_PKEY& issuer_key) {
  check(X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer)) == 1, "name an issuer");
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  for (const Extension& entry : extensions) {
    const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, &context, entry.nid, entry.value.c_str()));
    check(extension && X509_add_ext(&certificate, extension.get(), -1) == 1, "extend a certificate");
  }
  check(X509_sign(&certificate, &issuer_key, EVP_sha256()) > 0, "sign a certificate");
}

std::string text_of(BIO& memory) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(&memory, &data);
  return {data, static_cast<std::size_t>(bytes)};
}

struct File {
  std::string name;
  std::string text;
  mode_t mode;
};

void add_files(std::vector<File>& files, const std::string& name, X509& certificate, EVP_PKEY& key) {
  const Memory certificate_text(BIO_new(BIO_s_mem())), key_text(BIO_new(BIO_s_mem()));
  check(certificate_text && PEM_write_bio_X509(certificate_text.get(), &certificate) == 1,
        "write a certificate");
  check(key_text &&
            PEM_write_bio_PKCS8PrivateKey(key_text.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
        "write a key");
  files.push_back({name + ".key", text_of(*key_text), 0600});
  files.push_back({name + ".pem", text_of(*certificate_text), 0644});
}

std::vector<File> make_files(std::chrono::days validity) {
  std::vector<File> files;
  const Key ca_key = make_key();
  const Certificate ca = make_certificate("ca", *ca_key, validity);
  sign(*ca,
       {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, "critical,keyCertSign,cRLSign"},
        {NID_subject_key_identifier, "hash"}},
       *ca, *ca_key);
  add_files(files, "ca", *ca, *ca_key);
  for (const Role& role : roles()) {
    const Key key = make_key();
    const Certificate certificate = make_certificate(role.name, *key, validity);
    sign(*certificate,
         {{NID_basic_constraints, "critical,CA:FALSE"},
          {NID_key_usage, "critical,digitalSignature"},
          {NID_ext_key_usage, role.usage},
          {NID_subject_key_identifier, "hash"},
          {NID_authority_key_identifier, "keyid"},
          {NID_subject_alt_name, "URI:distbelief:role/" + role.name + role.more_names}},
         *ca, *ca_key);
    add_files(files, role.name, *certificate, *key);
  }
  return files;
}

[[noreturn]] void cannot_write(const std::filesystem::path& path, int code) {
  throw Error(code == EEXIST ? ErrorCode::kBadInput : ErrorCode::kUnavailable,
              fmt::format("certificates: {} cannot be made: {}; {}", path.string(), std::strerror(code),
                          code == EEXIST ? "nothing is overwritten, choose another folder or remove it"
                                         : "is the folder writable?"));
}

// Writes a file that exists only whole; O_EXCL: never replaces another one.
void write_file(const std::filesystem::path& path, const File& file) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file.mode);
  if (descriptor < 0) cannot_write(path, errno);
  const ssize_t written = write(descriptor, file.text.data(), file.text.size());
  const int code = errno;
  ::close(descriptor);
  if (written == static_cast<ssize_t>(file.text.size())) return;
  unlink(path.c_str());
  cannot_write(path, written < 0 ? code : ENOSPC);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  if (std::filesystem::create_directories(folder, failed))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  if (failed) cannot_write(folder, failed.value());
}

}  // namespace

void make_certificates(const std::filesystem::path& folder, std::chrono::days validity) {
  if (validity.count() < 1 || validity > std::chrono::years(100))
    throw Error(ErrorCode::kBadInput,
                fmt::format("certificates: a validity of 1 day to 100 years is wanted, found {} days",
                            validity.count()));
  const std::vector<File> files = make_files(validity);
  make_folder(folder);
  std::vector<std::filesystem::path> written;
  try {
    for (const File& file : files) {
      write_file(folder / file.name, file);
      written.push_back(folder / file.name);
    }
  } catch (...) {
    for (const std::filesystem::path& path : written) unlink(path.c_str());
    throw;
  }
}

ControlAddress secure_address(const std::string& target, const std::filesystem::path& folder,
                              const std::string& role) {
  return {.target = target,
          .ca = folder / "ca.pem",
          .certificate = folder / (role + ".pem"),
          .key = folder / (role + ".key"),
          .expected_role = ""};
}

std::string pack_certificates(const ControlAddress& address) {
  std::string texts;
  for (const std::string& path : {address.ca, address.certificate, address.key}) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file || !text.starts_with(kBeginning))
      throw Error(ErrorCode::kBadInput, fmt::format("certificates: {} cannot be read as a PEM file", path));
    texts += text + '\0';
  }
  return to_hex(texts);
}

ControlAddress unpack_certificates(const std::string& target, const std::string& word) {
  std::istringstream texts(from_hex(word));
  ControlAddress address{.target = target};
  for (std::string* text : {&address.ca, &address.certificate, &address.key})
    if (!std::getline(texts, *text, '\0') || !text->starts_with(kBeginning))
      throw Error(ErrorCode::kBadInput, "certificates: what the supervisor passed on is damaged");
  return address;
}

}  // namespace distbelief::comm
