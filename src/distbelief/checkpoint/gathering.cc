#include "distbelief/checkpoint/gathering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/folders.h"
#include "distbelief/checkpoint/loaded.h"
#include "distbelief/checkpoint/manifest.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kLook{5};
constexpr milliseconds kLongestLeave{5'000};

constexpr const char* kSealed = "sealed";
constexpr const char* kFailed = "failed";
constexpr const char* kLeft = "left";

// Returns false when the deadline passes first.
template <typename Condition>
bool wait_until(milliseconds deadline, const Condition& is_so) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_names(const Json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Json& name) { return name.is_string(); });
}

// Readers see the whole file or none. Not synced: it matters only while its writer lives.
void put(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.parent_path() / (std::string(kTemporaryPrefix) + path.filename().string());
  errno = 0;
  std::ofstream stream(temporary, std::ios::binary);
  stream << text;
  stream.close();
  const bool written = stream.good() && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) throw cannot_use(path, {errno, std::generic_category()});
}

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

std::string weights_sha256(const fs::path& folder, const std::vector<SealedPart>& parts) {
  std::vector<SafetensorsFile> files;
  for (std::size_t i = 0; i < parts.size(); ++i)
    files.emplace_back(folder / state_name(static_cast<int>(i), static_cast<int>(parts.size())));
  const TensorIndex tensors = index_of(folder, files);
  std::set<std::string> names;  // pieces of one tensor in several parts count once
  for (const SealedPart& part : parts) names.insert(part.weights.begin(), part.weights.end());
  std::vector<TensorView> weights;
  for (const std::string& name : names) weights.push_back(tensors.tensor(name));
  return sha256_by_name(weights);
}

fs::path Gathering::file(const char* kind, int part) const {
  return options_.folder / part_name(kind, part, options_.parts);
}

std::string Gathering::part_text(int part) const {
  return fmt::format("part {} of {}", part + 1, options_.parts);
}

bool Gathering::is_gone() const {
  std::error_code ignored;
  return !fs::exists(options_.folder, ignored);
}

std::vector<int> Gathering::parts_with(const char* kind) const {
  std::set<std::string> names;  // one directory listing for any number of parts
  for (const fs::path& path : children(options_.folder)) names.insert(path.filename().string());
  std::vector<int> parts;
  for (int part = 0; part < options_.parts; ++part)
    if (part != options_.part && names.contains(part_name(kind, part, options_.parts))) parts.push_back(part);
  return parts;
}

int Gathering::failed_part() const {
  const std::vector<int> failed = parts_with(kFailed);
  return failed.empty() ? -1 : failed.front();
}

Error Gathering::failure_of(int part) const {
  const std::string reason = text_of(file(kFailed, part));
  return Error(ErrorCode::kAborted,
               fmt::format("{} failed: {}", part_text(part),
                           reason.empty() ? "there was not even room to say why; see its log" : reason));
}

Error Gathering::gone() const {
  return Error(
      ErrorCode::kAborted,
      fmt::format("{} was removed before all was written: {} has given up, or another save has begun; "
                  "its log says why",
                  options_.folder.string(), part_text(0)));
}

void Gathering::check() const {
  const int part = failed_part();
  if (part >= 0) throw failure_of(part);
  if (is_gone()) throw gone();
}

AtPoint Gathering::watched() const {
  return [this](const std::string& point) {
    if (options_.at) options_.at(point);
    check();
  };
}

void Gathering::leave(const std::string& reason) const noexcept {
  try {
    if (failed_part() >= 0) {
      std::ofstream(file(kLeft, options_.part));
      return;
    }
    try {
      put(file(kFailed, options_.part), reason);
    } catch (const Error&) {
      std::ofstream(file(kFailed, options_.part));  // creating an empty file often works on a full disk
    }
  } catch (const std::exception&) {  // the other parts end at their deadline
  }
}

std::vector<SealedPart> Gathering::wait_for_others() const {
  std::vector<int> sealed;
  const auto are_sealed = [&] {
    check();
    sealed = parts_with(kSealed);
    return sealed.size() + 1 == static_cast<std::size_t>(options_.parts);
  };
  if (!wait_until(options_.deadline, are_sealed)) throw missing_but(sealed);
  std::vector<SealedPart> others;
  for (int part : sealed) others.push_back(read_seal(part));
  return others;
}

Error Gathering::missing_but(const std::vector<int>& sealed) const {
  std::vector<int> missing;
  for (int part = 1; part < options_.parts; ++part)
    if (std::find(sealed.begin(), sealed.end(), part) == sealed.end()) missing.push_back(part + 1);
  return Error(
      ErrorCode::kTimeout,
      fmt::format("part {} of {} was not written to {} within {} s; look whether its process is alive "
                  "and sees this folder",
                  fmt::join(missing, " and "), options_.parts, options_.folder.string(),
                  seconds(options_.deadline)));
}

SealedPart Gathering::read_seal(int part) const {
  const Json seal = read_json(file(kSealed, part));
  const bool whole = seal.is_object() && is_sealed(seal) && is_file_record(seal.value("file", Json())) &&
                     is_names(seal.value("weights", Json()));
  if (!whole) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{} is damaged; check the disk and the file system",
                                                     file(kSealed, part).string()));
  }
  return {.file = seal.at("file"), .weights = seal.at("weights").get<std::vector<std::string>>()};
}

void Gathering::remove_seals() const {
  for (int part = 1; part < options_.parts; ++part) {
    std::error_code error;
    fs::remove(file(kSealed, part), error);
    if (error) throw cannot_use(file(kSealed, part), error);
  }
}

void Gathering::wait_until_others_left() const noexcept {
  const auto have_left = [this] {
    const std::size_t left = parts_with(kFailed).size() + parts_with(kLeft).size();
    return left + 1 == static_cast<std::size_t>(options_.parts) || is_gone();
  };
  try {
    wait_until(std::min(options_.deadline, kLongestLeave), have_left);
  } catch (const std::exception&) {  // the folder is then removed while others write
  }
}

void Gathering::wait_for_folder() const {
  if (wait_until(options_.deadline, [this] { return !is_gone(); })) return;
  throw Error(ErrorCode::kTimeout,
              fmt::format("{} did not make {} within {} s; look whether its process is alive and sees the "
                          "same folder",
                          part_text(0), options_.folder.string(), seconds(options_.deadline)));
}

void Gathering::seal(const SealedPart& own) const {
  const Json record = sealed({{"file", own.file}, {"weights", own.weights}});
  watched()(fmt::format("seal {}", state_name(options_.part, options_.parts)));
  put(file(kSealed, options_.part), record.dump());
}

bool Gathering::has_name(const fs::path& target) const {
  try {
    return read_manifest(target / kManifestName).value("attempt", "") == options_.attempt;
  } catch (const Error&) {
    return false;
  }
}

void Gathering::wait_for_name(const fs::path& target) const {
  int failed = -1;
  wait_until(options_.deadline, [&] { return is_gone() || (failed = failed_part()) >= 0; });
  // Check the name first: the folder is also gone once it has become the checkpoint, and the replaced
  // checkpoint then takes the temporary name.
  if (has_name(target)) return;
  if (failed >= 0) throw failure_of(failed);
  if (is_gone()) throw gone();
  throw Error(ErrorCode::kTimeout,
              fmt::format("{} did not give {} its name within {} s; look whether its process is alive",
                          part_text(0), target.string(), seconds(options_.deadline)));
}

}  // namespace distbelief::checkpoint
