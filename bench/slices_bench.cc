// What bench/slices runs, a process for each measurement so that nothing is left in memory:
//   slices_bench make FOLDER SAMPLES BYTES noise|picture   the same samples as files, as IDX and packed
//   slices_bench files FOLDER THREADS                      every file once, in random order
//   slices_bench packed FOLDER THREADS                     every sample once, in the order of an epoch
// Prints samples per second.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/data/generated/synthetic.h"
#include "distbelief/data/pipeline/order.h"
#include "distbelief/data/slices/pack.h"
#include "distbelief/data/slices/packed_source.h"
#include "distbelief/data/slices/slice.h"

namespace {

using namespace distbelief;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPerFolder = 1000;

// Bytes that cannot be compressed, as those of a JPEG file cannot.
class Noise : public data::Source {
 public:
  Noise(std::uint64_t samples, std::int64_t bytes, std::uint64_t seed) : samples_(samples), seed_(seed) {
    spec_.input_shape = {1, 1, bytes};
    spec_.classes = 10;
  }
  std::uint64_t size() const override { return samples_; }
  void read(std::uint64_t index, void* input, void* target) const override {
    SplitMix64 random(derive_seed({seed_, index}));
    auto* to = static_cast<std::uint8_t*>(input);
    for (std::int64_t i = 0; i < spec_.input_shape[2]; ++i) to[i] = std::uint8_t(random() >> 33);
    *static_cast<std::int64_t*>(target) = std::int64_t(index % 10);
  }

 private:
  std::uint64_t samples_;
  std::uint64_t seed_;
};

data::DataSet make_set(std::int64_t samples, std::int64_t bytes, const std::string& content) {
  if (content == "noise")
    return {std::make_unique<Noise>(samples, bytes, 1), std::make_unique<Noise>(64, bytes, 2)};
  data::SyntheticImages::Options options{.samples = samples, .height = bytes / 64, .width = 64, .noise = 0.1};
  auto train = std::make_unique<data::SyntheticImages>(data::Part::kTrain, options);
  options.samples = 64;
  return {std::move(train), std::make_unique<data::SyntheticImages>(data::Part::kTest, options)};
}

std::string file_of(const std::string& folder, std::uint64_t index) {
  return fmt::format("{}/files/{:04}/{:08}", folder, index / kPerFolder, index);
}

int make(const std::string& folder, std::int64_t samples, std::int64_t bytes, const std::string& content) {
  const data::DataSet set = make_set(samples, bytes, content);
  const std::uint64_t each = data::sample_bytes(set.train->spec()).input;
  std::vector<char> sample(each);
  std::int64_t label = 0;
  for (std::uint64_t i = 0; i < set.train->size(); ++i) {
    if (i % kPerFolder == 0) fs::create_directories(fs::path(file_of(folder, i)).parent_path());
    set.train->read(i, sample.data(), &label);
    std::ofstream(file_of(folder, i), std::ios::binary).write(sample.data(), std::streamsize(sample.size()));
  }
  data::pack(set, {.folder = folder + "/packed", .threads = 2, .origin = content, .progress = {}});
  return 0;
}

// Runs `body(thread)` on so many threads and prints what `samples` per second that is.
template <typename Body>
void measure(std::uint64_t samples, int threads, const Body& body) {
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back([&, i] { body(i); });
  }
  fmt::print("{:.0f}\n", double(samples) / std::chrono::duration<double>(Clock::now() - begin).count());
}

void read_file(const std::string& path, std::vector<char>& to) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read(file, to.data(), to.size());
  if (file >= 0) close(file);
  if (got <= 0) throw Error(ErrorCode::kUnavailable, "cannot read " + path);
}

int files(const std::string& folder, int threads) {
  const std::uint64_t samples = data::read_slice_index(folder + "/packed").train.samples;
  const data::Permutation order(samples, 1, 0);
  measure(samples, threads, [&](int thread) {
    std::vector<char> to(1 << 20);
    for (std::uint64_t i = std::uint64_t(thread); i < samples; i += std::uint64_t(threads))
      read_file(file_of(folder, order(i)), to);
  });
  return 0;
}

int packed(const std::string& folder, int threads) {
  const data::DataSet set = data::open_packed(folder + "/packed", {.threads = threads});
  constexpr std::uint64_t kLanes = 4, kBatch = 128;
  const data::EpochPlan plan{set.train->size(), kBatch, kLanes};
  const data::Order order({plan, set.train->locality(), 1}, 0);
  // One loader thread, as a worker has; `threads` more read and decompress ahead.
  measure(plan.samples, 1, [&](int) {
    const data::SampleBytes each = data::sample_bytes(set.train->spec());
    std::vector<std::uint8_t> input(each.input);
    std::vector<std::uint64_t> samples(kBatch);
    std::int64_t label = 0;
    for (std::uint64_t step = 0; step < plan.steps(); ++step) {
      for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
        order.announce(*set.train, {.step = step, .lane = lane, .first = step == 0});
        const data::Range range = plan.lane_range(step, lane);
        order.list(range, samples.data());
        for (std::uint64_t i = 0; i < range.size(); ++i) set.train->read(samples[i], input.data(), &label);
      }
    }
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 5 && words[0] == "make")
    return make(words[1], std::stoll(words[2]), std::stoll(words[3]), words[4]);
  if (words.size() == 3 && words[0] == "files") return files(words[1], std::stoi(words[2]));
  if (words.size() == 3 && words[0] == "packed") return packed(words[1], std::stoi(words[2]));
  fmt::print(stderr, "see the head of bench/slices_bench.cc\n");
  return 2;
} catch (const std::exception& error) {
  fmt::print(stderr, "slices_bench: {}\n", error.what());
  return 1;
}
