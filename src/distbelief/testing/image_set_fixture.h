#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/registry.h"

namespace distbelief::testing {

// A data set of small images in a scratch folder.
class ImageSetFixture : public ::testing::Test {
 protected:
  explicit ImageSetFixture(std::string name) : name_(std::move(name)) {}

  DataConfig config(const OptionMap& extra = {}) const {
    DataConfig config;
    config.name = name_;
    config.path = folder_.path().string();
    config.options = {{"resize", std::int64_t{0}}, {"crop", std::int64_t{4}}};
    for (const auto& [name, value] : extra) config.options[name] = value;
    return config;
  }
  data::DataSet open(const OptionMap& extra = {}) { return data::open_data_set(config(extra)); }
  // The first byte of a sample and its class.
  static std::pair<int, std::int64_t> sample(const data::Source& source, std::uint64_t index) {
    std::vector<std::uint8_t> planes(48);
    std::int64_t label = -1;
    source.read(index, planes.data(), &label);
    return {planes[0], label};
  }
  ScratchFolder folder_;

 private:
  std::string name_;
};

}  // namespace distbelief::testing
