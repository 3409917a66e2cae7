#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "distbelief/comm/rpc/control.h"

namespace distbelief::comm {

// Makes a small certification authority and a certificate for each role: ca.pem and ca.key; supervisor,
// server, worker and operator with .pem and .key. EC P-256; keys are unencrypted with mode 0600. The role is
// in the subject's OU and in the alternative name `distbelief:role/ROLE`. The supervisor also has the DNS
// name `distbelief-supervisor`, by which clients know it on any host; a parameter server has
// `distbelief-server` and may also be a client of another server. ca.key is needed only to sign more
// certificates; a worker's host needs ca.pem, worker.pem and worker.key.
//
// Makes the folder (mode 0700) if it is missing. Overwrites nothing: throws Error(kBadInput) and leaves the
// folder as it was when one of the files exists, kUnavailable when one cannot be written.
void make_certificates(const std::filesystem::path& folder, std::chrono::days validity);

// The address with the files of a role ("supervisor", "server", "worker", "operator") in such a folder.
ControlAddress secure_address(const std::string& target, const std::filesystem::path& folder,
                              const std::string& role);

// Packs the address's certificates into one word of letters and digits, for the environment of a process on
// another host, and unpacks it. Both throw Error(kBadInput): for files that cannot be read, or for an invalid
// word.
std::string pack_certificates(const ControlAddress& address);
ControlAddress unpack_certificates(const std::string& target, const std::string& word);

}  // namespace distbelief::comm
