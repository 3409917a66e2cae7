#include <string>
#include <vector>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/run/saved_tables.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {

// Saved tables of a run: their list, a zero byte, then the single piece of each. Corrects the hash of the
// piece.
void tables(std::span<const std::uint8_t> input) {
  const Halves parts = halves(input);
  const MemoryFile file(parts.second);
  parse_or_refuse([&] {
    const checkpoint::SafetensorsFile piece{std::filesystem::path(file.path())};
    const ScratchFolder folder;
    write_text(folder.path() / "tables.json", std::string(text_of(parts.first)));
    checkpoint::write_safetensors(folder.path() / "words-00000.safetensors", piece.tensors(),
                                  {{"sha256", checkpoint::sha256_by_name(piece.tensors())}});
    try {
      run::SavedTables saved(folder.path(), {{.name = "words", .width = 3, .scale = 0.5}});
      const std::vector<std::uint64_t> ids = {0, 1, 7};
      std::vector<float> values(ids.size() * 3);
      saved.pull(0, ids, values);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;  // the list names a missing piece
    }
  });
}

}  // namespace distbelief::fuzz
