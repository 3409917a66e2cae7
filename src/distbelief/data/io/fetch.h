#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace distbelief::data {

// A file that can be downloaded. Its hash identifies it, whichever server sends it.
struct RemoteFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

struct RemoteSet {
  std::string name;                // data set
  std::vector<std::string> homes;  // URLs of folders, tried in order
  std::vector<RemoteFile> files;
  std::string installed;               // its path in Debian's package; empty: no package
  std::string folder;                  // where `get` puts it, and where it is looked for
  std::vector<RemoteFile> unpacked{};  // the files to extract from a .tar.gz, by their last path component
};

const std::vector<RemoteSet>& remote_sets();
const RemoteSet& find_remote_set(const std::string& name);  // throws Error(kBadInput)

// Parses a user's own set from JSON: {"name": "x", "homes": ["https://..."], "files": [{"name", "bytes",
// "sha256"}]}. If the only file is a .tar.gz, "unpacked" may list the files to extract in the same form.
// Throws Error(kBadInput), beginning with `file`, for anything else.
RemoteSet parse_remote_set(std::string_view text, const std::string& file);

bool is_installed(const RemoteSet& set);

struct FetchOptions {
  std::filesystem::path folder;
  std::string mirror{};   // URL of a folder that replaces the homes
  std::string ca_file{};  // HttpClient::Options::ca_file
  std::function<void(const std::string& file, std::uint64_t done, std::uint64_t all)> progress{};
};

struct Fetched {
  std::uint64_t bytes = 0;       // received over the network
  std::uint64_t kept_bytes = 0;  // already present, from this or an interrupted fetch
};

// Downloads every file of the set into the folder. A file gets its name only after its SHA-256 matches; until
// then it is ".part-NAME", and the next call resumes it. Throws Error(kUnavailable) when no home has the
// files or the folder cannot be written, and Error(kBadInput) when the received bytes are wrong. Blocks.
Fetched fetch(const RemoteSet& set, const FetchOptions& options);

// Extracts `wanted` from a .tar.gz into `folder`, matching members by their last path component and skipping
// all others. Throws Error(kBadInput) with file and offset for a damaged archive and for wrong content.
void unpack_tar(const std::filesystem::path& archive, const std::vector<RemoteFile>& wanted,
                const std::filesystem::path& folder);

}  // namespace distbelief::data
