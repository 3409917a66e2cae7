#include "distbelief/cli/predict_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "distbelief/base/error.h"
#include "distbelief/cli/pnm.h"
#include "distbelief/data/idx.h"

namespace distbelief::cli {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kBadInput, message); }

bool takes_images(const data::SampleSpec& spec) {
  return spec.input_type == ElementType::kUint8 && spec.input_shape.size() == 3;
}

void require_images(const data::SampleSpec& spec, const std::string& input) {
  if (!takes_images(spec))
    refuse(fmt::format("{}: this network takes {} numbers per sample, not images; give rows of a .csv", input,
                       element_count(spec.input_shape)));
}

void add_image(const std::string& input, GivenSamples& samples) {
  const data::SampleSpec& spec = samples.spec();
  require_images(spec, input);
  const PlanarPixels fitted =
      fit(read_pnm(input), {int(spec.input_shape[0]), int(spec.input_shape[1]), int(spec.input_shape[2])});
  samples.add(input, fitted.pixels.data());
}

void add_idx(const std::string& input, GivenSamples& samples) {
  const data::SampleSpec& spec = samples.spec();
  require_images(spec, input);
  const data::IdxArray images = data::read_idx(input, 3);
  const auto count = std::uint64_t(images.shape[0]), size = std::uint64_t(images.shape[1] * images.shape[2]);
  if (images.shape[1] != spec.input_shape[1] || images.shape[2] != spec.input_shape[2] ||
      spec.input_shape[0] != 1)
    refuse(fmt::format("{}: its images are {}, this network takes {}", input,
                       distbelief::to_string(images.shape), distbelief::to_string(spec.input_shape)));
  for (std::uint64_t i = 0; i < count; ++i)
    samples.add(fmt::format("{}:{}", input, i), images.elements.data() + i * size);
}

// Empty when a field is no number.
std::vector<double> numbers_of(const std::string& line) {
  std::vector<double> values;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find_first_of(",;\t", begin), line.size());
    std::size_t first = line.find_first_not_of(' ', begin);
    double value = 0;
    if (first == std::string::npos || first >= end) return {};
    const auto result = std::from_chars(line.data() + first, line.data() + end, value);
    if (result.ec != std::errc() ||
        line.find_first_not_of(" \r", std::size_t(result.ptr - line.data())) < end)
      return {};
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

template <typename T>
void add_values(const std::string& name, const std::vector<double>& values, GivenSamples& samples) {
  std::vector<T> row;
  for (const double value : values) row.push_back(T(value));
  samples.add(name, row.data());
}

void add_row(const std::string& name, const std::vector<double>& values, GivenSamples& samples) {
  const data::SampleSpec& spec = samples.spec();
  if (std::int64_t(values.size()) != element_count(spec.input_shape))
    refuse(fmt::format("{}: {} numbers; this network takes {}", name, values.size(),
                       element_count(spec.input_shape)));
  const double most = spec.input_type == ElementType::kUint8   ? 255
                      : spec.input_type == ElementType::kInt64 ? double(spec.classes - 1)
                                                               : 0;
  if (spec.input_type != ElementType::kFloat32 &&
      std::any_of(values.begin(), values.end(), [&](double value) { return !(value >= 0 && value <= most); }))
    refuse(fmt::format("{}: numbers must be from 0 to {}", name, most));
  if (spec.input_type == ElementType::kUint8) add_values<std::uint8_t>(name, values, samples);
  if (spec.input_type == ElementType::kInt64) add_values<std::int64_t>(name, values, samples);
  if (spec.input_type == ElementType::kFloat32) add_values<float>(name, values, samples);
}

void add_table(const std::string& input, GivenSamples& samples) {
  std::ifstream file(input);
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \r\t") == std::string::npos) continue;
    const std::vector<double> values = numbers_of(line);
    if (values.empty() && number == 1) continue;  // names of columns
    if (values.empty()) refuse(fmt::format("{}:{}: a field is no number", input, number));
    add_row(fmt::format("{}:{}", input, number), values, samples);
  }
}

void add_test_samples(const std::string& input, const data::Source& test, GivenSamples& samples) {
  const std::string range = input.substr(std::strlen("test:"));
  std::uint64_t first = 0, last = 0;
  const char* const end = range.data() + range.size();
  auto result = std::from_chars(range.data(), end, first);
  last = first;
  if (result.ec == std::errc() && result.ptr != end && *result.ptr == '-')
    result = std::from_chars(result.ptr + 1, end, last);
  if (result.ec != std::errc() || result.ptr != end || last < first || last >= test.size())
    refuse(fmt::format("{}: wanted test:N or test:N-M with numbers from 0 to {}", input, test.size() - 1));
  std::vector<std::byte> bytes(element_size(test.spec().input_type) *
                               std::size_t(element_count(test.spec().input_shape)));
  std::vector<std::byte> target(
      8 * std::size_t(std::max<std::int64_t>(1, element_count(test.spec().target_shape))));
  for (std::uint64_t i = first; i <= last; ++i) {
    test.read(i, bytes.data(), target.data());
    samples.add(fmt::format("test:{}", i), bytes.data());
  }
}

}  // namespace

GivenSamples::GivenSamples(const data::SampleSpec& spec)
    : bytes_(element_size(spec.input_type) * std::size_t(element_count(spec.input_shape))) {
  spec_ = spec;
}

void GivenSamples::add(std::string name, const void* input) {
  names_.push_back(std::move(name));
  const auto* begin = static_cast<const std::byte*>(input);
  inputs_.insert(inputs_.end(), begin, begin + bytes_);
}

void GivenSamples::read(std::uint64_t index, void* input, void* target) const {
  std::memcpy(input, inputs_.data() + index * bytes_, bytes_);
  std::memset(target, 0, element_size(spec_.target_type) * std::size_t(element_count(spec_.target_shape)));
}

void add_input(const std::string& input, const data::Source& test, GivenSamples& samples) {
  if (input.starts_with("test:")) return add_test_samples(input, test, samples);
  if (!std::filesystem::is_regular_file(input)) refuse(fmt::format("there is no file {}", input));
  if (input.ends_with(".ppm") || input.ends_with(".pgm")) return add_image(input, samples);
  if (input.ends_with(".csv") || input.ends_with(".tsv")) return add_table(input, samples);
  if (input.find("idx3-ubyte") != std::string::npos) return add_idx(input, samples);
  refuse(
      fmt::format("{}: wanted is an image (.ppm, .pgm), a table (.csv), an IDX file of images, or test:N; "
                  "convert others, e.g. with: convert photo.jpg photo.ppm",
                  input));
}

}  // namespace distbelief::cli
