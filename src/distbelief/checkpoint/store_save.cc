// Store::save(): one process alone, or several processes with a part each.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <iterator>

#include "distbelief/checkpoint/folders.h"
#include "distbelief/checkpoint/gathering.h"
#include "distbelief/checkpoint/manifest.h"
#include "distbelief/checkpoint/pieces.h"
#include "distbelief/checkpoint/store.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMostParts = 99'999;  // five digits

bool is_word(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
}

// The requirement that a snapshot misses; empty: none.
std::string flaw_of(const Snapshot& snapshot) {
  if (snapshot.step < 0 || !snapshot.progress.is_object())
    return "a step from 0 on and a JSON object of progress counters";
  if (snapshot.weights > snapshot.tensors.size()) return "at most as many weights as tensors";
  if (snapshot.part < 0 || snapshot.part >= snapshot.parts || snapshot.parts > kMostParts)
    return fmt::format("a part below the number of parts, and at most {} of these", kMostParts);
  if (!is_word(snapshot.attempt) || (snapshot.parts > 1 && snapshot.attempt.empty()))
    return "an attempt of letters, digits, '-', '_' and '.' when it has several parts";
  return {};
}

SealedPart write_part(const fs::path& folder, const Snapshot& snapshot, const AtPoint& at) {
  const fs::path path = folder / state_name(snapshot.part, snapshot.parts);
  SealedPart part;
  part.file = file_record(
      write_safetensors(path, snapshot.tensors, with_pieces(snapshot.metadata, snapshot.tensors), at));
  for (const TensorView& tensor : snapshot.tensors.first(snapshot.weights))
    part.weights.push_back(tensor.piece ? tensor.piece->tensor : tensor.name);
  return part;
}

}  // namespace

void Store::save(const Snapshot& snapshot) {
  if (const std::string wanted = flaw_of(snapshot); !wanted.empty())
    throw Error(ErrorCode::kInternal, fmt::format("a checkpoint needs {}", wanted));
  try {
    write(snapshot);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("the checkpoint of step {} was not saved: {}", snapshot.step, error.message()));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInternal,
                fmt::format("the progress of step {} is no JSON: {}", snapshot.step, error.what()));
  }
}

fs::path Store::temporary_path(const Snapshot& snapshot) const {
  const std::string attempt = snapshot.attempt.empty() ? std::to_string(getpid()) : snapshot.attempt;
  return folder_ / fmt::format("{}{}-{}", kTemporaryPrefix, folder_name(snapshot.step), attempt);
}

Gathering Store::gathering(const Snapshot& snapshot) const {
  return Gathering({.folder = temporary_path(snapshot),
                    .part = snapshot.part,
                    .parts = snapshot.parts,
                    .attempt = snapshot.attempt,
                    .deadline = options_.deadline,
                    .at = options_.at});
}

void Store::write(const Snapshot& snapshot) {
  at("begin", folder_name(snapshot.step));
  check_turn();
  if (snapshot.part != 0) return write_for_part_0(snapshot);
  create_durably(folder_);
  remove_unfinished();  // a failure does not stop the save; prune() reports it
  TemporaryFolder temporary(temporary_path(snapshot));
  snapshot.parts == 1 ? write_alone(snapshot, temporary) : write_with_others(snapshot, temporary);
}

void Store::write_alone(const Snapshot& snapshot, TemporaryFolder& temporary) {
  const SealedPart whole = write_part(temporary.path(), snapshot, options_.at);
  const std::string hash = sha256_by_name(snapshot.tensors.first(snapshot.weights));
  write_durably(temporary.path() / kManifestName, manifest_text(make_manifest(snapshot, hash, {whole.file})),
                options_.at);
  commit(snapshot, temporary);
}

void Store::write_with_others(const Snapshot& snapshot, TemporaryFolder& temporary) {
  const Gathering others = gathering(snapshot);
  try {
    std::vector<SealedPart> parts{write_part(temporary.path(), snapshot, others.watched())};
    at("gather", folder_name(snapshot.step));
    std::ranges::move(others.wait_for_others(), std::back_inserter(parts));
    std::vector<Json> files;
    for (const SealedPart& part : parts) files.push_back(part.file);
    const std::string hash = weights_sha256(temporary.path(), parts);
    write_durably(temporary.path() / kManifestName, manifest_text(make_manifest(snapshot, hash, files)),
                  others.watched());
    at("unseal", folder_name(snapshot.step));
    others.remove_seals();
    others.check();
    commit(snapshot, temporary);
  } catch (const std::exception& error) {
    others.leave(error.what());
    others.wait_until_others_left();
    throw;
  }
}

void Store::write_for_part_0(const Snapshot& snapshot) {
  const Gathering others = gathering(snapshot);
  others.wait_for_folder();
  try {
    others.seal(write_part(temporary_path(snapshot), snapshot, others.watched()));
    others.wait_for_name(folder_ / folder_name(snapshot.step));
  } catch (const Error& error) {
    others.leave(error.what());
    // The folder is gone, so no file could be written; report the reason for that instead.
    if (error.code() == ErrorCode::kUnavailable && others.is_gone()) throw others.gone();
    throw;
  } catch (const std::exception& error) {
    others.leave(error.what());
    throw;
  }
  sync_directory(folder_);  // part 0 may not have synced it yet
}

void Store::commit(const Snapshot& snapshot, TemporaryFolder& temporary) {
  const fs::path target = folder_ / folder_name(snapshot.step);
  at("rename", target);
  check_turn();
  temporary.move_to(target);
  at("sync the name of", target);
  sync_directory(folder_);
}

}  // namespace distbelief::checkpoint
