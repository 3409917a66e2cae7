#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/options.h"
#include "distbelief/data/io/fetch.h"

// The data sets that can be downloaded. Several independent projects publish the same hashes.
namespace distbelief::data {
namespace {

RemoteSet idx_set(const char* name, std::vector<std::string> homes, const char* installed,
                  const std::array<RemoteFile, 4>& files) {
  return {.name = name,
          .homes = std::move(homes),
          .files = {files.begin(), files.end()},
          .installed = installed,
          .folder = fmt::format("data/{}", name)};
}

std::vector<RemoteSet> make_remote_sets() {
  constexpr std::uint64_t kBatch = 30'730'000;  // 10,000 images of CIFAR
  return {
      idx_set("mnist",
              {"https://ossci-datasets.s3.amazonaws.com/mnist",
               "https://storage.googleapis.com/cvdf-datasets/mnist"},
              "/usr/share/datasets/mnist",
              {{{"train-images-idx3-ubyte.gz", 9'912'422,
                 "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
                {"train-labels-idx1-ubyte.gz", 28'881,
                 "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
                {"t10k-images-idx3-ubyte.gz", 1'648'877,
                 "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
                {"t10k-labels-idx1-ubyte.gz", 4'542,
                 "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}}),
      idx_set("fashion_mnist", {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"},
              "/usr/share/datasets/fashion-mnist",
              {{{"train-images-idx3-ubyte.gz", 26'421'880,
                 "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
                {"train-labels-idx1-ubyte.gz", 29'515,
                 "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
                {"t10k-images-idx3-ubyte.gz", 4'422'102,
                 "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
                {"t10k-labels-idx1-ubyte.gz", 5'148,
                 "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}}),
      {.name = "cifar10",
       .homes = {"https://www.cs.toronto.edu/~kriz"},
       .files = {{"cifar-10-binary.tar.gz", 170'052'171,
                  "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
       .installed = "",
       .folder = "data/cifar10",
       .unpacked =
           {{"data_batch_1.bin", kBatch, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
            {"data_batch_2.bin", kBatch, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
            {"data_batch_3.bin", kBatch, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
            {"data_batch_4.bin", kBatch, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
            {"data_batch_5.bin", kBatch, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
            {"test_batch.bin", kBatch, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}}},
  };
}

[[noreturn]] void refuse_remote_set(const std::string& file, const std::string& reason) {
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("'{}': {}; a set is {{\"name\": ..., \"homes\": [URL, ...], \"files\": [{{\"name\": ..., "
                  "\"bytes\": ..., \"sha256\": ...}}, ...]}}, and \"unpacked\" like \"files\" for what is "
                  "taken out of one .tar.gz",
                  file, reason));
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_plain(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

std::vector<RemoteFile> parse_files(const nlohmann::json& list, const std::string& file) {
  std::vector<RemoteFile> files;
  for (const auto& one : list) {
    if (!one.at("bytes").is_number_unsigned()) refuse_remote_set(file, "bytes must be a whole number");
    files.push_back({one.at("name").get<std::string>(), one.at("bytes").get<std::uint64_t>(),
                     one.at("sha256").get<std::string>()});
    if (!is_plain(files.back().name) || !is_sha256(files.back().sha256))
      refuse_remote_set(file, fmt::format("'{}' has no plain name or no SHA-256 of 64 lower-case digits",
                                          files.back().name));
  }
  return files;
}

}  // namespace

const std::vector<RemoteSet>& remote_sets() {
  static const std::vector<RemoteSet> sets = make_remote_sets();
  return sets;
}

const RemoteSet& find_remote_set(const std::string& name) {
  std::vector<std::string> names;
  for (const RemoteSet& set : remote_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  const std::string near = nearest(name, names);
  throw Error(ErrorCode::kBadInput, fmt::format("no public home of '{}' is known{}; known are {}", name,
                                                near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                                fmt::join(names, ", ")));
}

bool is_installed(const RemoteSet& set) {
  if (set.installed.empty()) return false;
  return std::all_of(set.files.begin(), set.files.end(), [&](const RemoteFile& file) {
    return std::filesystem::exists(std::filesystem::path(set.installed) / file.name);
  });
}

RemoteSet parse_remote_set(std::string_view text, const std::string& file) try {
  const nlohmann::json json = parse_json(text, file);
  RemoteSet set;
  set.name = json.at("name").get<std::string>();
  set.homes = json.value("homes", std::vector<std::string>());
  set.folder = "data/" + set.name;
  if (!is_plain(set.name)) refuse_remote_set(file, "its name cannot be the name of a folder");
  set.files = parse_files(json.at("files"), file);
  set.unpacked = parse_files(json.value("unpacked", nlohmann::json::array()), file);
  if (set.unpacked.empty()) return set;
  if (set.files.size() != 1)
    refuse_remote_set(file,
                      fmt::format("what is unpacked comes out of one file, found {}", set.files.size()));
  for (const RemoteFile& one : set.unpacked)
    if (one.name == set.files[0].name) refuse_remote_set(file, "an archive is not taken out of itself");
  return set;
} catch (const nlohmann::json::exception& error) {
  refuse_remote_set(file, fmt::format("this is no set ({})", error.what()));
}

}  // namespace distbelief::data
