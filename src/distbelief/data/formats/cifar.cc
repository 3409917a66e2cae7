#include "distbelief/data/formats/cifar.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/data/io/input_file.h"

namespace distbelief::data {
namespace {

constexpr std::int64_t kCifarSide = 32;
constexpr std::size_t kCifarImageBytes = 3 * 32 * 32;
constexpr std::size_t kRecordsAtOnce = 256;
constexpr const char* kCifar10Train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin"};

constexpr const char* kCifar10Advice =
    "distbelief data get cifar10 fetches it; or set data.path to the folder that has CIFAR-10's binary "
    "version";
constexpr const char* kCifar100Advice =
    "unpack https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz and set data.path to the folder that "
    "has "
    "train.bin and test.bin";

std::vector<std::filesystem::path> cifar_files(const std::string& folder, const char* advice,
                                               std::initializer_list<const char*> names) {
  if (folder.empty())
    throw Error(ErrorCode::kUnavailable, fmt::format("it is not where it is looked for; {}", advice));
  std::vector<std::filesystem::path> files;
  for (const char* name : names) {
    files.push_back(std::filesystem::path(folder) / name);
    std::error_code ignored;  // whatever the reason, the file is unavailable
    if (!std::filesystem::exists(files.back(), ignored)) throw missing_from(folder, name, advice);
  }
  return files;
}

DataSet open_cifar10(const DataConfig& config, const OptionMap&) {
  const CifarFormat format{.label_bytes = 1, .label_at = 0, .classes = 10};
  const auto train =
      cifar_files(config.path, kCifar10Advice,
                  {kCifar10Train[0], kCifar10Train[1], kCifar10Train[2], kCifar10Train[3], kCifar10Train[4]});
  return {
      std::make_unique<CifarSource>(train, format),
      std::make_unique<CifarSource>(cifar_files(config.path, kCifar10Advice, {"test_batch.bin"}), format)};
}

DataSet open_cifar100(const DataConfig& config, const OptionMap& options) {
  const std::string& labels = option<std::string>(options, "labels");
  if (labels != "fine" && labels != "coarse")
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("data set 'cifar100': option 'labels' must be fine or coarse, found '{}'", labels),
        {.key = "data.labels"});
  const bool fine = labels == "fine";
  const CifarFormat format{
      .label_bytes = 2, .label_at = fine ? std::size_t{1} : 0, .classes = fine ? 100 : 20};
  return {std::make_unique<CifarSource>(cifar_files(config.path, kCifar100Advice, {"train.bin"}), format),
          std::make_unique<CifarSource>(cifar_files(config.path, kCifar100Advice, {"test.bin"}), format)};
}

}  // namespace

CifarSource::CifarSource(const std::vector<std::filesystem::path>& files, const CifarFormat& format)
    : format_(format) {
  spec_.input_shape = {3, kCifarSide, kCifarSide};
  spec_.classes = format.classes;
  if (spec_.classes == 10)
    spec_.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                         "dog",      "frog",       "horse", "ship", "truck"};
  spec_.mean = {0.4914F, 0.4822F, 0.4465F};
  spec_.deviation = {0.2470F, 0.2435F, 0.2616F};
  for (const std::filesystem::path& path : files) add(path);
}

void CifarSource::add(const std::filesystem::path& path) {
  RandomAccessFile file(path);
  const std::size_t record = format_.label_bytes + kCifarImageBytes;
  if (file.size() == 0 || file.size() % record != 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: records of {} bytes are wanted, the last one has {}; fetch the file again",
                            file.at(file.size() / record * record), record, file.size() % record));
  const std::uint64_t count = file.size() / record, first = labels_.size();
  std::vector<std::uint8_t> bytes(record * kRecordsAtOnce);
  for (std::uint64_t at = 0; at < count; at += kRecordsAtOnce) {
    const std::uint64_t here = std::min<std::uint64_t>(kRecordsAtOnce, count - at);
    file.read(at * record, bytes.data(), here * record);
    for (std::uint64_t i = 0; i < here; ++i) {
      const std::uint8_t label = bytes[i * record + format_.label_at];
      if (label >= format_.classes)
        throw Error(ErrorCode::kBadInput,
                    fmt::format("{}: label {} is outside 0 to {}; is this the right file?",
                                file.at((at + i) * record + format_.label_at), label, format_.classes - 1));
      labels_.push_back(label);
    }
  }
  shards_.push_back({std::move(file), first});
}

void CifarSource::read(std::uint64_t index, void* input, void* target) const {
  read_columns(index, 0, kCifarImageBytes, input, target);
}

void CifarSource::read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                               void* target) const {
  DISTBELIEF_INVARIANT(index < size() && begin + count <= kCifarImageBytes);
  const auto after = std::upper_bound(shards_.begin(), shards_.end(), index,
                                      [](std::uint64_t i, const Shard& shard) { return i < shard.first; });
  const Shard& shard = *(after - 1);
  const std::uint64_t record = format_.label_bytes + kCifarImageBytes;
  shard.file.read((index - shard.first) * record + format_.label_bytes + begin, input, count);
  *static_cast<std::int64_t*>(target) = labels_[index];
}

DataSetEntry cifar10_entry() {
  return {"cifar10",
          "CIFAR-10: animals and vehicles, 50,000 + 10,000 colour images of 32 x 32, 10 classes; the binary "
          "version",
          {},
          open_cifar10};
}

DataSetEntry cifar100_entry() {
  return {
      "cifar100",
      "CIFAR-100: animals, plants, people, things and places, 50,000 + 10,000 colour images of 32 x 32, 100 "
      "classes in 20 groups; the binary version",
      {{"labels", std::string("fine"), "fine: 100 classes; coarse: the 20 groups of five that they are in"}},
      open_cifar100};
}

bool has_cifar10(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kCifar10Train[0]) &&
         std::filesystem::exists(folder / "test_batch.bin");
}

bool has_cifar100(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "train.bin") && std::filesystem::exists(folder / "test.bin");
}

}  // namespace distbelief::data
