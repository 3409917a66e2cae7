#include <string_view>

#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/cli/job_check.h"
#include "distbelief/cli/job_file.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {

void safetensors(std::span<const std::uint8_t> input) {
  const MemoryFile file(input);
  parse_or_refuse([&] {
    const checkpoint::SafetensorsFile tensors{std::filesystem::path(file.path())};
    checkpoint::sha256_by_name(tensors.tensors());  // every byte that a tensor claims
  });
}

void job(std::span<const std::uint8_t> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  parse_or_refuse([&] {
    const Config config = cli::parse_job(text, "job.toml");
    cli::validate(config);
    // What passes must survive the way through a file.
    if (cli::parse_job(cli::to_toml(config), "again") != config) std::abort();
  });
}

}  // namespace distbelief::fuzz
