#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/data/source.h"

// What `distbelief predict` is given, as samples like those that the network was trained on.
namespace distbelief::cli {

// Samples in memory. Immutable once filled; targets are 0 where they are not known.
class GivenSamples final : public data::Source {
 public:
  explicit GivenSamples(const data::SampleSpec& spec);
  void add(std::string name, const void* input);
  std::uint64_t size() const override { return names_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;
  const std::string& name(std::uint64_t index) const { return names_[index]; }

 private:
  std::size_t bytes_;  // of one
  std::vector<std::string> names_;
  std::vector<std::byte> inputs_;
};

// Adds what `input` names: an image (.ppm, .pgm; cut to the right proportions from its middle and resized),
// an IDX file of images (plain or .gz), a table (.csv: a row of numbers for each sample, with or without a
// line of names), or samples of the test set (test:7, test:0-9). Throws Error(kBadInput) with file and line
// or byte.
void add_input(const std::string& input, const data::Source& test, GivenSamples& samples);

}  // namespace distbelief::cli
