#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace distbelief::data {

// A file with a public home. Its hash is what makes it that file, whoever sends it.
struct RemoteFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

struct RemoteSet {
  std::string name;                // of the data set
  std::vector<std::string> homes;  // URLs of folders, tried in order
  std::vector<RemoteFile> files;
  std::string installed;               // where Debian's package has it; empty: there is none
  std::string folder;                  // where `get` puts it and where it is looked for
  std::vector<RemoteFile> unpacked{};  // of a .tar.gz: what is taken out of it, by its last name
};

const std::vector<RemoteSet>& remote_sets();
const RemoteSet& find_remote_set(const std::string& name);  // throws Error(kBadInput)

// A set of one's own, as JSON: {"name": "x", "homes": ["https://..."], "files": [{"name", "bytes",
// "sha256"}]}. When that is one .tar.gz, "unpacked" may list in the same way what is taken out of it. Throws
// Error(kBadInput), beginning with `file`, for anything else.
RemoteSet parse_remote_set(std::string_view text, const std::string& file);

bool is_installed(const RemoteSet& set);

struct FetchOptions {
  std::filesystem::path folder;
  std::string mirror{};   // URL of a folder, instead of the homes
  std::string ca_file{};  // HttpClient::Options::ca_file
  std::function<void(const std::string& file, std::uint64_t done, std::uint64_t all)> progress{};
};

struct Fetched {
  std::uint64_t bytes = 0;       // that came over the wire
  std::uint64_t kept_bytes = 0;  // that were there, of this or an interrupted fetch
};

// Puts every file of the set into the folder. A file appears there only when its SHA-256 is right; until then
// it is ".part-NAME", which the next call continues. Throws Error(kUnavailable) when no home has the files or
// the folder cannot be written, Error(kBadInput) when what came has other bytes than it should. Blocks.
Fetched fetch(const RemoteSet& set, const FetchOptions& options);

// Takes `wanted` out of a .tar.gz into `folder`; names with a path are cut to their last part, everything
// else is passed over. Throws Error(kBadInput) with file and offset for a damaged archive and for wrong
// content.
void unpack_tar(const std::filesystem::path& archive, const std::vector<RemoteFile>& wanted,
                const std::filesystem::path& folder);

}  // namespace distbelief::data
