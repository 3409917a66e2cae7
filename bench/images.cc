// How fast images get to a model: JPEG of 256 x 256 pixels to normalised float crops of 224 x 224, as they
// are and with half of them mirrored, through the loader with one thread, against libjpeg-turbo alone, which
// decodes the same files from memory to RGB and throws them away.
//
//     images [--images 400] [--rounds 9] [--crop 224] [--folder DIR]     DIR: JPEG files of your own, in
//     class folders
//
// The two take turns; medians over the rounds. By the clock, and by processor time, which other programs on
// the machine disturb less.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <jpeglib.h>  // after <cstdio>, which it needs and does not include

#include "distbelief/base/median.h"
#include "distbelief/base/random.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/formats/image_folder.h"
#include "distbelief/data/io/random_access_file.h"
#include "distbelief/data/pipeline/loader.h"
#include "distbelief/testing/written_images.h"

// The program's allocator and its settings (cli/main.cc): others give a decoder's memory back after every
// image.
extern "C" {
const char* malloc_conf = "narenas:1,dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0";
}

namespace {

using namespace distbelief;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kSide = 256;
constexpr std::uint64_t kBatch = 32;
constexpr int kPrefetch = 2;

struct Rate {
  double by_clock = 0;      // images a second
  double by_processor = 0;  // images a second of processor time, of all threads
};

class Rates {
 public:
  void add(Rate rate) {
    by_clock_.push_back(rate.by_clock);
    by_processor_.push_back(rate.by_processor);
  }
  Rate middle() const { return {median(by_clock_), median(by_processor_)}; }

 private:
  std::vector<double> by_clock_, by_processor_;
};

class Stopwatch {
 public:
  Rate rate(std::uint64_t images) const {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    return {double(images) / elapsed, double(images) / (processor_seconds() - processor_)};
  }

  // Waits until no thread of ours works any more: the loader has filled what it may.
  static void settle() {
    for (double before = -1; processor_seconds() - before > 1e-3;) {
      before = processor_seconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  static double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
  }
  Clock::time_point start_ = Clock::now();
  double processor_ = processor_seconds();
};

// Soft shapes with grain, about as many bytes a pixel as a photograph has at this quality.
std::string picture(std::uint64_t seed) {
  SplitMix64 random(seed);
  double waves[4][3];
  for (auto& wave : waves)
    for (double& value : wave) value = random.uniform() * 0.15;
  const testing::Drawing drawing =
      testing::draw(kSide, kSide, [&](std::uint32_t x, std::uint32_t y, std::uint32_t c) {
        double value = 128;
        for (const auto& wave : waves) value += 25 * std::sin(wave[0] * x + wave[1] * y + 20 * wave[2] * c);
        value += 20 * (random.uniform() - 0.5);
        return static_cast<std::uint32_t>(std::clamp(value, 0.0, 255.0));
      });
  return testing::to_jpeg(drawing, testing::JpegKind::kBaseline, 90);
}

void write_pictures(const std::filesystem::path& folder, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::filesystem::path path = folder / (i % 2 ? "a" : "b") / (std::to_string(i) + ".jpg");
    std::filesystem::create_directories(path.parent_path());
    write_text(path, picture(i));
  }
}

// libjpeg-turbo alone.
Rate bare_rate(const std::vector<std::vector<std::uint8_t>>& files, std::vector<std::uint8_t>& pixels) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  const Stopwatch watch;
  for (const auto& file : files) {
    jpeg_mem_src(&info, file.data(), file.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    const std::size_t row_bytes = std::size_t{info.output_width} * 3;
    pixels.resize(row_bytes * info.output_height);
    while (info.output_scanline < info.output_height) {
      JSAMPROW rows[16];
      const JDIMENSION count = std::min<JDIMENSION>(16, info.output_height - info.output_scanline);
      for (JDIMENSION i = 0; i < count; ++i) rows[i] = pixels.data() + (info.output_scanline + i) * row_bytes;
      jpeg_read_scanlines(&info, rows, count);
    }
    jpeg_finish_decompress(&info);
  }
  const Rate rate = watch.rate(files.size());
  jpeg_destroy_decompress(&info);
  return rate;
}

// What the source does on a loader thread: read, decode, crop, as bytes.
Rate source_rate(const data::Source& source) {
  std::vector<std::uint8_t> sample(std::size_t(element_count(source.spec().input_shape)));
  std::int64_t label = 0;
  const Stopwatch watch;
  for (std::uint64_t i = 0; i < source.size(); ++i) source.read(i, sample.data(), &label);
  return watch.rate(source.size());
}

// Out of the loader, once its thread runs at its own speed.
Rate loader_rate(const data::BatchMaker& maker, std::uint64_t images) {
  data::Loader loader(maker,
                      {.plan = {.samples = images, .batch = kBatch, .lanes = 1}, .prefetch = kPrefetch});
  Stopwatch::settle();
  for (int i = 0; i < kPrefetch + 2; ++i) loader.next();  // what lay ready, and memory that is new
  const Stopwatch watch;
  std::uint64_t samples = 0;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(images / kBatch, 1); ++i)
    samples += loader.next().size;
  return watch.rate(samples);
}

std::string argument(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const auto images = std::strtoull(argument(argc, argv, "--images", "400").c_str(), nullptr, 10);
  const auto rounds = std::strtoull(argument(argc, argv, "--rounds", "9").c_str(), nullptr, 10);
  const auto crop = std::uint32_t(std::strtoul(argument(argc, argv, "--crop", "224").c_str(), nullptr, 10));
  const ScratchFolder scratch;
  std::filesystem::path folder = argument(argc, argv, "--folder", "");
  if (folder.empty()) write_pictures(folder = scratch.path(), images);
  const data::ImageList list(folder);
  std::vector<std::vector<std::uint8_t>> files(list.size());
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    data::read_whole(list.path(i), data::kMostImageBytes, files[i]);
    bytes += files[i].size();
  }
  const data::ImageFolderSource source(list, {.size = {.resize = 256, .crop = crop}, .channels = 3});
  const data::BatchMaker plain(source, {.normalize = true});
  const data::BatchMaker mirroring(source, {.normalize = true, .augment_flip = true});
  Rates bare, read, loaded, mirrored;
  std::vector<std::uint8_t> pixels;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    bare.add(bare_rate(files, pixels));
    read.add(source_rate(source));
    loaded.add(loader_rate(plain, list.size()));
    mirrored.add(loader_rate(mirroring, list.size()));
  }
  const auto row = [](const char* what, Rate rate, const char* form) {
    std::printf("%-24s", what);
    std::printf(form, rate.by_clock);
    std::printf(form, rate.by_processor);
    std::printf("\n");
  };
  std::printf("%zu JPEG files, %.1f KB each; images a second\n%24s%14s%14s\n", files.size(),
              double(bytes) / 1e3 / double(files.size()), "", "by the clock", "by processor");
  row("libjpeg-turbo alone", bare.middle(), "%14.0f");
  const auto compare = [&](const char* what, const Rates& rates) {
    const Rate ours = rates.middle(), alone = bare.middle();
    row(what, ours, "%14.0f");
    row("  ratio", {ours.by_clock / alone.by_clock, ours.by_processor / alone.by_processor}, "%14.3f");
  };
  compare("read, decoded, cropped", read);
  compare("and float batches", loaded);
  compare("half of them mirrored", mirrored);
  return 0;
}
