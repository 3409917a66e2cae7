#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace distbelief::testing {

using TarContents = std::vector<std::pair<std::string, std::string>>;  // names and contents

// Writes a tar with these files.
inline void write_tar(const std::filesystem::path& path, const TarContents& members) {
  std::filesystem::create_directories(path.parent_path());
  archive* out = archive_write_new();
  archive_write_set_format_pax_restricted(out);
  archive_write_open_filename(out, path.c_str());
  for (const auto& [member, content] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(out, entry);
    archive_write_data(out, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_free(out);
}

}  // namespace distbelief::testing
