#include "distbelief/run/saved_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/folders.h"
#include "distbelief/compute/row_values.h"

namespace distbelief::run {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kPieceBytes = std::size_t{32} << 20;
constexpr const char* kList = "tables.json";

struct RecordHead {
  std::uint64_t id = 0;
  float accumulated = 0;
  std::uint32_t version = 0;
};

fs::path piece_path(const fs::path& folder, const std::string& table, std::size_t piece) {
  return folder / fmt::format("{}-{:05}.safetensors", table, piece);
}

// Writes rows of one table to files.
class PieceWriter {
 public:
  PieceWriter(const comm::TableSpec& spec, fs::path folder) : spec_(spec), folder_(std::move(folder)) {}

  void add(std::span<const std::byte> records) {
    for (std::size_t at = 0; at < records.size(); at += spec_.record_bytes()) {
      RecordHead head;
      std::memcpy(&head, records.data() + at, sizeof head);
      ids_.push_back(std::int64_t(head.id));
      sums_.push_back(head.accumulated);
      const auto* const values = reinterpret_cast<const float*>(records.data() + at + sizeof head);
      values_.insert(values_.end(), values, values + spec_.width);
      if (values_.size() * sizeof(float) >= kPieceBytes) write();
    }
  }
  std::size_t finish() {
    if (!ids_.empty()) write();
    return pieces_;
  }

 private:
  void write() {
    const auto rows = std::int64_t(ids_.size());
    const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
    const std::vector<checkpoint::TensorView> tensors{
        {.name = "ids", .type = ElementType::kInt64, .shape = {rows}, .data = bytes(ids_)},
        {.name = "sums", .type = ElementType::kFloat32, .shape = {rows}, .data = bytes(sums_)},
        {.name = "values", .shape = {rows, std::int64_t(spec_.width)}, .data = bytes(values_)}};
    checkpoint::write_safetensors(piece_path(folder_, spec_.name, pieces_), tensors,
                                  {{"table", spec_.name},
                                   {"piece", std::to_string(pieces_)},
                                   {"sha256", checkpoint::sha256_by_name(tensors)}});
    ++pieces_;
    ids_.clear();
    sums_.clear();
    values_.clear();
  }

  const comm::TableSpec& spec_;
  fs::path folder_;
  std::size_t pieces_ = 0;
  std::vector<std::int64_t> ids_;
  std::vector<float> sums_;
  std::vector<float> values_;
};

void remove_old(const fs::path& tables, std::size_t keep) {
  std::vector<std::int64_t> steps;
  for (const fs::path& folder : checkpoint::children(tables))
    if (const auto step = checkpoint::step_of(folder.filename())) steps.push_back(*step);
  std::ranges::sort(steps);
  std::error_code ignored;
  for (std::size_t i = 0; i + std::max<std::size_t>(1, keep) < steps.size(); ++i)
    fs::remove_all(tables / checkpoint::folder_name(steps[i]), ignored);
}

Error damaged(const fs::path& path, const std::string& why) {
  return {ErrorCode::kBadInput,
          fmt::format("{}: {}; is it of this job, and all of it there?", path.string(), why)};
}

// Opens and checks the pieces of one table.
std::vector<checkpoint::SafetensorsFile> open_pieces(const fs::path& folder, const comm::TableSpec& spec) {
  const Json list = read_json(folder / kList);
  const Json entry = list.is_object() ? list.value(spec.name, Json()) : Json();
  const bool sound = entry.is_object() && entry.value("width", Json()) == spec.width &&
                     entry.value("pieces", Json()).is_number_unsigned();
  if (!sound) throw damaged(folder / kList, fmt::format("no table '{}' of width {}", spec.name, spec.width));
  std::vector<checkpoint::SafetensorsFile> pieces;
  for (std::size_t piece = 0; piece < entry.at("pieces").get<std::size_t>(); ++piece) {
    const fs::path path = piece_path(folder, spec.name, piece);
    pieces.emplace_back(path);
    const auto& found = pieces.back();
    const auto rows = found.tensor("ids").shape;
    if (rows.size() != 1 || found.tensor("values").shape != Shape{rows[0], std::int64_t(spec.width)} ||
        found.tensor("sums").shape != rows || found.tensor("ids").type != ElementType::kInt64 ||
        found.tensor("values").type != ElementType::kFloat32 ||
        found.tensor("sums").type != ElementType::kFloat32)
      throw damaged(path, "other shapes than ids [n], sums [n], values [n, width]");
    // Rows are read in place, so they must be aligned.
    if (reinterpret_cast<std::uintptr_t>(found.tensor("ids").data) % alignof(std::uint64_t) != 0 ||
        reinterpret_cast<std::uintptr_t>(found.tensor("values").data) % alignof(float) != 0)
      throw damaged(path, "its numbers do not begin where numbers may");
    const auto sha = found.metadata().find("sha256");
    if (sha == found.metadata().end() || sha->second != checkpoint::sha256_by_name(found.tensors()))
      throw damaged(path, "not what was saved");
  }
  return pieces;
}

template <typename T>
const T* data_of(const checkpoint::SafetensorsFile& file, const char* name) {
  return reinterpret_cast<const T*>(file.tensor(name).data);
}

}  // namespace

std::vector<tasks::RowLink::Counts> save_tables(tasks::RowLink& link,
                                                const std::vector<comm::TableSpec>& tables,
                                                const fs::path& run_dir, std::int64_t step,
                                                std::size_t keep) {
  const fs::path all = run_dir / "tables";
  checkpoint::create_durably(all);
  checkpoint::TemporaryFolder folder(all / ("." + checkpoint::folder_name(step)));
  std::vector<tasks::RowLink::Counts> counts;
  Json list = Json::object();
  for (std::size_t table = 0; table < tables.size(); ++table) {
    PieceWriter writer(tables[table], folder.path());
    counts.push_back(link.list(int(table), [&](std::span<const std::byte> records) { writer.add(records); }));
    list[tables[table].name] = {{"width", tables[table].width}, {"seed", tables[table].seed},
                                {"scale", tables[table].scale}, {"rows", counts.back().rows},
                                {"gone", counts.back().gone},   {"pieces", writer.finish()}};
  }
  const std::string text = list.dump() + "\n";
  write_durably(folder.path() / kList, text);
  folder.move_to(all / checkpoint::folder_name(step));
  remove_old(all, keep);
  return counts;
}

std::optional<fs::path> find_tables(const fs::path& run_dir, std::optional<std::int64_t> wanted) {
  std::int64_t newest = -1;
  for (const fs::path& folder : checkpoint::children(run_dir / "tables"))
    if (const auto step = checkpoint::step_of(folder.filename()))
      if (!wanted || *wanted == *step) newest = std::max(newest, *step);
  if (newest < 0) return std::nullopt;
  return run_dir / "tables" / checkpoint::folder_name(newest);
}

void load_tables(tasks::RowLink& link, const std::vector<comm::TableSpec>& tables, const fs::path& folder) {
  for (std::size_t table = 0; table < tables.size(); ++table) {
    const comm::TableSpec& spec = tables[table];
    for (const checkpoint::SafetensorsFile& piece : open_pieces(folder, spec)) {
      const auto rows = std::size_t(piece.tensor("ids").shape[0]);
      std::vector<std::byte> records(rows * spec.record_bytes());
      for (std::size_t i = 0; i < rows; ++i) {
        RecordHead head{.version = 1};
        std::memcpy(&head.id, data_of<std::byte>(piece, "ids") + i * sizeof head.id, sizeof head.id);
        std::memcpy(&head.accumulated, data_of<std::byte>(piece, "sums") + i * sizeof(float), sizeof(float));
        std::byte* const record = records.data() + i * spec.record_bytes();
        std::memcpy(record, &head, sizeof head);
        std::memcpy(record + sizeof head,
                    data_of<std::byte>(piece, "values") + i * spec.width * sizeof(float),
                    spec.width * sizeof(float));
      }
      link.load(int(table), records);
    }
  }
}

SavedTables::SavedTables(const fs::path& folder, std::vector<comm::TableSpec> tables)
    : specs_(std::move(tables)),
      tables_(specs_.size()) {
  for (std::size_t table = 0; table < specs_.size(); ++table) {
    Table& mine = tables_[table];
    mine.pieces = open_pieces(folder, specs_[table]);
    for (const checkpoint::SafetensorsFile& piece : mine.pieces) {
      const auto* const ids = data_of<std::uint64_t>(piece, "ids");
      const auto* const values = data_of<float>(piece, "values");
      for (std::size_t i = 0; i < std::size_t(piece.tensor("ids").shape[0]); ++i)
        mine.index.push_back({ids[i], values + i * specs_[table].width});
    }
    std::ranges::sort(mine.index, {}, &Place::id);
  }
}

const float* SavedTables::find(int table, std::uint64_t id) const {
  const std::vector<Place>& index = tables_[std::size_t(table)].index;
  const auto found = std::ranges::lower_bound(index, id, {}, &Place::id);
  return found != index.end() && found->id == id ? found->values : nullptr;
}

void SavedTables::pull(int table, std::span<const std::uint64_t> ids, std::span<float> values) {
  const comm::TableSpec& spec = specs_[std::size_t(table)];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    float* const to = values.data() + i * spec.width;
    if (const float* const row = find(table, ids[i]))
      std::copy_n(row, spec.width, to);
    else
      compute::first_values(spec.seed, ids[i], float(spec.scale), to, spec.width);
  }
}

}  // namespace distbelief::run
