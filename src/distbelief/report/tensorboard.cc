#include "distbelief/report/tensorboard.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "distbelief/base/error.h"
#include "distbelief/base/host_name.h"

namespace distbelief::report {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::uint32_t, 256> castagnoli_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = castagnoli_table();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ std::uint8_t(byte)) & 0xFF] ^ crc >> 8;
  crc = ~crc;
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

template <typename T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += char(value >> (8 * i) & 0xFF);
}

// Protobuf's wire format: a key of field number and type, then the value.
enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}

void append_key(std::string& out, int field, Wire wire) {
  append_varint(out, std::uint64_t(field) << 3 | std::uint64_t(wire));
}

void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_key(out, field, Wire::kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event_with_time(double unix_seconds) {
  std::string event;
  append_key(event, 1, Wire::kFixed64);
  append_little_endian(event, std::bit_cast<std::uint64_t>(unix_seconds));
  return event;
}

}  // namespace

std::string tensorboard_record(std::string_view data) {
  std::string out;
  append_little_endian(out, std::uint64_t(data.size()));
  append_little_endian(out, masked_crc32c(out));
  out += data;
  append_little_endian(out, masked_crc32c(data));
  return out;
}

std::string scalar_event(double unix_seconds, std::int64_t step, std::string_view tag, float number) {
  std::string value;  // Summary.Value: tag = 1, simple_value = 2
  append_bytes(value, 1, tag);
  append_key(value, 2, Wire::kFixed32);
  append_little_endian(value, std::bit_cast<std::uint32_t>(number));
  std::string summary;  // Summary: value = 1
  append_bytes(summary, 1, value);
  std::string event = event_with_time(unix_seconds);  // Event: wall_time = 1, step = 2, summary = 5
  append_key(event, 2, Wire::kVarint);
  append_varint(event, std::uint64_t(step));
  append_bytes(event, 5, summary);
  return event;
}

std::string version_event(double unix_seconds) {
  std::string event = event_with_time(unix_seconds);
  append_bytes(event, 3, "brain.Event:2");  // Event.file_version
  return event;
}

TensorBoardFile::TensorBoardFile(const fs::path& run_dir)
    : folder_(run_dir / "tensorboard"),
      metrics_(run_dir / "metrics.jsonl") {}

void TensorBoardFile::fail() const {
  throw Error(ErrorCode::kUnavailable, fmt::format("cannot write {}: {}; make room or check the permissions",
                                                   path_.string(), std::generic_category().message(errno)));
}

// The name must increase: TensorBoard reads the files of a folder in name order.
void TensorBoardFile::open(double unix_seconds) {
  std::error_code error;
  fs::create_directories(folder_, error);
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) fs::remove(entry.path(), error);
  path_ = folder_ / fmt::format("events.out.tfevents.{:010.0f}.{}", unix_seconds, host_name());
  file_.reset(std::fopen(path_.c_str(), "wbe"));
  if (!file_) fail();
  append(version_event(unix_seconds));
}

void TensorBoardFile::append(const std::string& event) {
  const std::string record = tensorboard_record(event);
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size()) fail();
}

void TensorBoardFile::take(const nlohmann::json& line) {
  // JSON writes null for values that are not finite.
  const auto number = [](const nlohmann::json& value) {
    return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  };
  if (!line.contains("step") || !line["step"].is_number_integer()) return;
  const double time = number(line.value("unix_seconds", nlohmann::json(0)));
  const auto step = line["step"].get<std::int64_t>();
  if (!file_) open(time);
  for (const auto& [key, value] : line.items()) {
    if (key == "phase_seconds" && value.is_object())
      for (const auto& [phase, seconds] : value.items())
        append(scalar_event(time, step, "phase_seconds/" + phase, float(number(seconds))));
    if (key == "test_metrics" && value.is_object())
      for (const auto& [name, score] : value.items())
        if (name != "accuracy") append(scalar_event(time, step, "test/" + name, float(number(score))));
    const bool is_value = value.is_number() || value.is_null();
    if (!is_value || key == "step" || key == "unix_seconds") continue;
    append(scalar_event(time, step, (key.starts_with("test_") ? "test/" + key.substr(5) : "train/" + key),
                        float(number(value))));
  }
}

void TensorBoardFile::read_new() {
  metrics_.read_new([this](const nlohmann::json& line) { take(line); });
  if (file_ && std::fflush(file_.get()) != 0) fail();
}

}  // namespace distbelief::report
