// Costs that must stay flat or proportional: the sampler and loader per sample from 10^4 to 10^9 samples,
// and the optimizers' passes over memory.
//   build/release/bin/micro_bench
#include <benchmark/benchmark.h>

#include <vector>

#include "distbelief/base/tree.h"
#include "distbelief/compute/kernels.h"
#include "distbelief/data/pipeline/loader.h"
#include "distbelief/data/registry.h"

namespace {

using namespace distbelief;

void sampler(benchmark::State& state) {
  const data::Permutation order(std::uint64_t(state.range(0)), 1, 2);
  std::uint64_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(order(at));
    at = (at + 7919) % order.size();
  }
}
BENCHMARK(sampler)->Arg(10'000)->Arg(1'000'000)->Arg(100'000'000)->Arg(1'000'000'000);

// One sample through permutation, source, conversion and the ring of batches.
void loader(benchmark::State& state) {
  DataConfig config;
  config.name = "synthetic";
  config.options = {{"samples", state.range(0)}, {"height", std::int64_t{8}}, {"width", std::int64_t{8}}};
  const data::DataSet set = data::open_data_set(config);
  const data::BatchMaker maker(*set.train, {.seed = 1});
  constexpr std::uint64_t kBatch = 64;
  data::Loader batches(maker, {.plan = {set.train->size(), kBatch, 1}, .seed = 1, .threads = 0});
  for (auto _ : state) benchmark::DoNotOptimize(batches.next().size);
  state.SetItemsProcessed(state.iterations() * std::int64_t(kBatch));
}
BENCHMARK(loader)->Arg(10'000)->Arg(1'000'000)->Arg(100'000'000)->Arg(1'000'000'000);

void fused_momentum(benchmark::State& state) {
  const auto count = std::size_t(state.range(0));
  std::vector<float> parameters(count, 1), gradients(count, 1e-6F), velocity(count);
  for (auto _ : state)
    compute::sgd_momentum(parameters.data(), gradients.data(), velocity.data(), {0.01F, 0.9F, 0}, count);
  state.SetBytesProcessed(state.iterations() * std::int64_t(count * 5 * sizeof(float)));
}
BENCHMARK(fused_momentum)->Arg(1 << 10)->Arg(1 << 20)->Arg(1 << 24);

void adam(benchmark::State& state) {
  const auto count = std::size_t(state.range(0));
  std::vector<float> parameters(count, 1), gradients(count, 1e-6F), mean(count), square(count);
  const compute::AdamTerms terms{.beta1 = 0.9F,
                                 .beta2 = 0.999F,
                                 .one_minus_beta1 = 0.1F,
                                 .one_minus_beta2 = 0.001F,
                                 .step_size = 1e-3F,
                                 .root_correction = 1,
                                 .eps = 1e-8F};
  for (auto _ : state)
    compute::adam(parameters.data(), gradients.data(), mean.data(), square.data(), terms, count);
  state.SetBytesProcessed(state.iterations() * std::int64_t(count * 7 * sizeof(float)));
}
BENCHMARK(adam)->Arg(1 << 10)->Arg(1 << 20)->Arg(1 << 24);

void tree_of(benchmark::State& state) {
  const auto inputs = std::size_t(state.range(0));
  std::vector<std::vector<float>> leaves(inputs, std::vector<float>(kSumBlock, 1));
  std::vector<TreeNode> nodes;
  std::vector<const float*> pointers;
  for (std::size_t i = 0; i < inputs; ++i) {
    nodes.push_back({std::int64_t(i), std::int64_t(i) + 1});
    pointers.push_back(leaves[i].data());
  }
  const TreeProgram program = tree_program(std::int64_t(inputs), nodes);
  std::vector<float> scratch(kSumBlock * inputs);
  for (auto _ : state)
    benchmark::DoNotOptimize(tree_sum<float>(pointers, program.merges, kSumBlock, scratch.data()));
  state.SetBytesProcessed(state.iterations() * std::int64_t(inputs * kSumBlock * sizeof(float)));
}
BENCHMARK(tree_of)->Arg(2)->Arg(4)->Arg(8);

}  // namespace

BENCHMARK_MAIN();
