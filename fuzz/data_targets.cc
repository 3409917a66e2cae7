#include <filesystem>
#include <string_view>
#include <vector>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/formats/cifar.h"
#include "distbelief/data/formats/idx.h"
#include "distbelief/data/formats/s_expressions.h"
#include "distbelief/data/formats/table_query.h"
#include "distbelief/data/formats/table_source.h"
#include "distbelief/data/formats/webdataset.h"
#include "distbelief/data/image/decoder.h"
#include "distbelief/data/inspect.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/registry.h"
#include "memory_file.h"
#include "tar_headers.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

// Reads samples of an accepted set: opening it does not decode them.
void read_some(const data::Source& source) {
  const data::SampleSpec& spec = source.spec();
  std::vector<std::byte> input(static_cast<std::size_t>(element_count(spec.input_shape)) *
                               element_size(spec.input_type));
  std::vector<std::byte> target(static_cast<std::size_t>(element_count(spec.target_shape)) *
                                element_size(spec.target_type));
  constexpr std::uint64_t kMost = 8;
  for (std::uint64_t i = 0; i < source.size() && i < kMost; ++i) source.read(i, input.data(), target.data());
}

void open_and_read(const std::string& name, const std::string& path, OptionMap options) {
  DataConfig config;
  config.name = name;
  config.path = path;
  config.options = std::move(options);
  const data::DataSet set = data::open_data_set(config);
  read_some(*set.train);
  read_some(*set.test);
}

// Inspects the input as `distbelief init` does; the name's ending tells its kind.
void look_at(const std::string& name, std::span<const std::uint8_t> input) {
  static const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / name;
  write_text(path, std::string(text_of(input)));
  parse_or_refuse([&] { data::inspect(path); });
}

void decode(std::span<const std::uint8_t> input) {
  data::ImageSettings settings{
      .size = {}, .channels = input.size() % 2 == 0 ? 3U : 1U, .most_pixels = 1 << 18};
  std::vector<std::uint8_t> planes(std::size_t{3} * 16 * 16);
  for (const std::uint32_t resize : {24, 0}) {  // 0: YccMixer crops the JPEG
    settings.size = {.resize = resize, .crop = 16};
    try {
      data::thread_decoder().decode(input, settings, planes.data());
    } catch (const data::ImageFault&) {
    }
  }
  try {
    const data::ImageSize size = data::thread_decoder().size(input);
    if (std::uint64_t{size.width} * size.height > settings.most_pixels) return;
    data::thread_decoder().cover(input, settings.channels, {.width = 16, .height = 9}, planes.data());
  } catch (const data::ImageFault&) {
  }
}

}  // namespace

void idx(std::span<const std::uint8_t> input) {
  const MemoryFile file(input);
  for (const std::size_t rank : {1, 3}) parse_or_refuse([&] { data::read_idx(file.path(), rank); });
}

void cifar(std::span<const std::uint8_t> input) {
  const MemoryFile file(input);
  parse_or_refuse(
      [&] { read_some(data::CifarSource({file.path()}, {.label_bytes = 1, .label_at = 0, .classes = 10})); });
  parse_or_refuse([&] {
    read_some(data::CifarSource({file.path()}, {.label_bytes = 2, .label_at = 1, .classes = 100}));
  });
}

void jpeg(std::span<const std::uint8_t> input) { decode(input); }
void png(std::span<const std::uint8_t> input) { decode(input); }
void pnm(std::span<const std::uint8_t> input) { decode(input); }

// The bytes after a zero byte are the value of the options that list columns or words.
void csv(std::span<const std::uint8_t> whole) {
  const Halves parts = halves(whole);
  const std::span<const std::uint8_t> input = parts.first, listed = parts.second;
  const MemoryFile file(input);
  for (const char* option : {"ignore", "category", "numeric", "missing", "target"})
    if (!listed.empty())
      parse_or_refuse([&] { open_and_read("csv", file.path(), {{option, std::string(text_of(listed))}}); });
  parse_or_refuse([&] {
    DataConfig config;
    config.path = file.path();
    const data::TableSchema schema = data::learn_table(config);
    std::vector<float> features(static_cast<std::size_t>(schema.features));
    data::TableQuery query(file.path(), schema);
    while (query.next(features.data())) continue;
  });
  parse_or_refuse([&] { open_and_read("csv", file.path(), {}); });
  parse_or_refuse([&] {
    open_and_read("csv", file.path(), {{"header", false}, {"task", std::string("regression")}});
  });
  look_at("table.csv", input);
}

// Parses a data manifest without its checksum. An accepted one must survive a round trip, and then reads
// rows, text and trees from the bytes after a zero byte.
void known_set(std::span<const std::uint8_t> whole) {
  const Halves parts = halves(whole);
  const std::span<const std::uint8_t> input = parts.first, asked = parts.second;
  parse_or_refuse([&] { data::parse_known_set(text_of(input), "data.json"); });
  parse_or_refuse([&] {
    const data::KnownSet known = data::parse_known_body(text_of(input), "data.json");
    const std::string text = data::to_text(known);
    DISTBELIEF_INVARIANT(data::to_text(data::parse_known_set(text, "data.json")) == text);
    if (!known.learnt) return;
    const MemoryFile file(asked);
    if (const auto& table = known.learnt->table) {
      std::vector<float> features(static_cast<std::size_t>(table->features));
      data::TableQuery query(file.path(), *table);
      while (query.next(features.data())) continue;
    }
    if (const auto& vocabulary = known.learnt->vocabulary)
      for (const std::uint32_t token : vocabulary->encode(text_of(asked), "text", 0))
        vocabulary->decode(token);
    if (!known.learnt->tree_tokens.empty()) {
      const std::vector<data::TreeNode> nodes = data::parse_s_expression(text_of(asked));
      std::vector<std::int64_t> numbers(2 * nodes.size());
      data::write_tree(nodes, known.learnt->tree_tokens, std::int64_t(nodes.size()), numbers.data());
    }
  });
}

void text(std::span<const std::uint8_t> input) {
  const MemoryFile file(input);
  for (const char* level : {"bytes", "characters", "sentences"})
    parse_or_refuse([&] {
      open_and_read("text", file.path(),
                    {{"level", std::string(level)}, {"length", std::int64_t{4}}, {"held_out", 0.4}});
    });
  look_at("text.txt", input);
}

void tar(std::span<const std::uint8_t> input) {
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  put_headers_right(bytes);
  for (const std::span<const std::uint8_t> shard : {input, std::span<const std::uint8_t>(bytes)}) {
    const MemoryFile file(shard);
    parse_or_refuse([&] { data::index_shards({file.path()}, "label"); });
    parse_or_refuse([&] {
      open_and_read("webdataset", file.path(),
                    {{"resize", std::int64_t{0}}, {"crop", std::int64_t{4}}, {"held_out", 0.4}});
    });
  }
  look_at("shard.tar", bytes);
}

void tree(std::span<const std::uint8_t> input) {
  const MemoryFile file(input);
  parse_or_refuse([&] { data::read_asked_trees(file.path()); });
  static const ScratchFolder folder;  // the two files of a data set, separated by a zero byte
  const Halves parts = halves(input);
  write_text(folder.path() / "train.sexp", std::string(text_of(parts.first)));
  write_text(folder.path() / "test.sexp", std::string(text_of(parts.second)));
  parse_or_refuse([&] { open_and_read("s_expressions", folder.path().string(), {}); });
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  parse_or_refuse([&] {
    const std::vector<data::TreeNode> nodes = data::parse_s_expression(text);
    std::vector<std::int64_t> numbers(2 * nodes.size());
    data::write_tree(nodes, data::SyntheticLogic::tokens(), std::int64_t(nodes.size()), numbers.data());
  });
}

}  // namespace distbelief::fuzz
