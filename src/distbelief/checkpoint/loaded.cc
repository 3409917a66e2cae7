#include "distbelief/checkpoint/loaded.h"

namespace distbelief::checkpoint {

TensorIndex index_of(const std::filesystem::path& folder, const std::vector<SafetensorsFile>& files) {
  if (files.size() == 1) return files.front().index();
  std::vector<TensorView> all;
  for (const SafetensorsFile& file : files)
    all.insert(all.end(), file.tensors().begin(), file.tensors().end());
  return {folder, std::move(all)};
}

}  // namespace distbelief::checkpoint
