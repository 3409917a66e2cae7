#include "distbelief/checkpoint/loaded.h"

#include <fmt/format.h>

#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/checkpoint/pieces.h"

namespace distbelief::checkpoint {

TensorIndex index_of(const std::filesystem::path& folder, const std::vector<SafetensorsFile>& files) {
  if (files.size() == 1) return files.front().index();
  return {folder, join_pieces(folder, files)};
}

void export_weights(const Loaded& loaded, const std::string& prefix, const std::filesystem::path& path,
                    const Metadata& metadata) {
  std::vector<TensorView> chosen;
  for (const TensorView& tensor : loaded.tensors.all()) {
    if (!tensor.name.starts_with(prefix)) continue;
    chosen.push_back(tensor);
    chosen.back().name.erase(0, prefix.size());
  }
  if (chosen.empty()) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has no tensor whose name begins with '{}': is it a checkpoint of another program?",
                    loaded.entry.folder.string(), prefix));
  }
  write_safetensors(path, chosen, metadata);
}

}  // namespace distbelief::checkpoint
