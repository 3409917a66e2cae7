#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/cli/predict_inputs.h"
#include "distbelief/cluster/hosts.h"
#include "distbelief/data/pipeline/split.h"
#include "distbelief/job/byte_size.h"
#include "distbelief/job/job_check.h"
#include "distbelief/job/job_file.h"
#include "distbelief/model/fbnet_architecture.h"
#include "distbelief/run/fault.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

constexpr std::uint64_t kSplitSamples = 12;

data::SampleSpec spec_of(ElementType type, const Shape& shape) {
  data::SampleSpec spec;
  spec.input_type = type;
  spec.input_shape = shape;
  spec.classes = 10;
  return spec;
}

data::SplitColumns split_columns() {
  data::SplitColumns columns{.samples = kSplitSamples, .classes = 3, .labels = {}, .values = {}};
  for (std::uint64_t i = 0; i < kSplitSamples; ++i) {
    columns.labels.push_back(std::int64_t(i % 3));
    columns.values.push_back(double(i % 5));
  }
  return columns;
}

}  // namespace

void safetensors(std::span<const std::uint8_t> input) {
  const MemoryFile file(input);
  parse_or_refuse([&] {
    const checkpoint::SafetensorsFile tensors{std::filesystem::path(file.path())};
    checkpoint::sha256_by_name(tensors.tensors());  // reads every byte of every tensor
  });
  parse_or_refuse([&] {
    const checkpoint::SafetensorsFile tensors(file.path(), checkpoint::HalfFloats::kWidened);
    checkpoint::sha256_by_name(tensors.tensors());
  });
}

void job(std::span<const std::uint8_t> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  parse_or_refuse([&] {
    const Config config = job::parse_job(text, "job.toml");
    job::validate(config);
    // An accepted job must survive a round trip through a file.
    if (job::parse_job(job::to_toml(config), "again") != config) std::abort();
  });
}

// The layer choices of an FBNet: from a job, or as a search wrote them.
void architecture(std::span<const std::uint8_t> input) {
  const std::vector<model::FbnetLayer> layers{{.inputs = 16, .outputs = 16},
                                              {.inputs = 16, .outputs = 24, .stride = 2},
                                              {.inputs = 24, .outputs = 24}};
  parse_or_refuse([&] {
    const auto found = model::parse_architecture(std::string(text_of(input)), layers);
    DISTBELIEF_INVARIANT(model::parse_architecture(model::architecture_text(found), layers) == found);
  });
}

// Short input that users write: rows of numbers for distbelief predict, --set, a split rule, hosts, faults,
// sizes.
void numbers(std::span<const std::uint8_t> input) {
  const MemoryFile file(input);
  for (const data::SampleSpec& spec :
       {spec_of(ElementType::kUint8, {1, 1, 2}), spec_of(ElementType::kInt64, {3}),
        spec_of(ElementType::kFloat32, {4})})
    parse_or_refuse([&] {
      cli::GivenSamples samples(spec);
      cli::add_numbers(file.path(), samples);
    });
  const std::string text(text_of(input));
  parse_or_refuse([&] {
    Config config;
    job::apply_override(config, text);
    job::validate(config);
  });
  parse_or_refuse([&] {
    const data::Split split = data::split_samples(data::parse_split(text), split_columns(), 2, 1);
    std::vector<std::uint64_t> all;
    for (const auto& client : split) all.insert(all.end(), client.begin(), client.end());
    std::ranges::sort(all);
    DISTBELIEF_INVARIANT(all.size() == kSplitSamples && std::ranges::adjacent_find(all) == all.end());
  });
  parse_or_refuse([&] {
    const auto hosts = cluster::parse_hosts(text);
    DISTBELIEF_INVARIANT(cluster::parse_hosts(cluster::to_string(hosts)) == hosts);
    DISTBELIEF_INVARIANT(cluster::HostBoard(hosts, hosts).slots() >= int(hosts.size()));
  });
  parse_or_refuse([&] { cluster::parse_host_lines(text, "hosts"); });
  parse_or_refuse([&] { run::parse_fault(text, {.first = 2, .most = 4}); });
  parse_or_refuse([&] { DISTBELIEF_INVARIANT(job::parse_bytes(text, "--memory") <= std::size_t{1} << 60); });
}

}  // namespace distbelief::fuzz
