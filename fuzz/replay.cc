// Runs the corpora once, with any compiler: replay CORPUS. Each target has a folder in CORPUS.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "targets.h"

namespace {

using namespace distbelief::fuzz;

constexpr std::pair<const char*, Target> kTargets[] = {{"idx", idx},
                                                       {"cifar", cifar},
                                                       {"jpeg", jpeg},
                                                       {"png", png},
                                                       {"pnm", pnm},
                                                       {"csv", csv},
                                                       {"text", text},
                                                       {"tar", tar},
                                                       {"unpack_tar", unpack_tar},
                                                       {"remote_set", remote_set},
                                                       {"tree", tree},
                                                       {"slice", slice},
                                                       {"slice_index", slice_index},
                                                       {"packed", packed},
                                                       {"known_set", known_set},
                                                       {"tables", tables},
                                                       {"safetensors", safetensors},
                                                       {"manifest", manifest},
                                                       {"pieces", pieces},
                                                       {"architecture", architecture},
                                                       {"job", job},
                                                       {"numbers", numbers},
                                                       {"json_lines", json_lines},
                                                       {"run_json", run_json},
                                                       {"frame", frame},
                                                       {"hello", hello},
                                                       {"store", store},
                                                       {"service", service}};

int replay(const std::filesystem::path& folder, Target target) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    target({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    ++count;
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const auto& [name, target] : kTargets) {
    const int count = replay(std::filesystem::path(argv[1]) / name, target);
    std::printf("%-12s %d inputs\n", name, count);
    if (count == 0) return 1;
  }
  return 0;
}
