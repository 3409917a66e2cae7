#pragma once

#include <string>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/data/slices/sample_cache.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

struct KnownSet;

// How a set's samples are numbered: kByClass when those of a class may follow each other.
enum class SampleOrder { kMixed, kByClass };

struct DataSetEntry {
  std::string name;
  std::string description;
  std::vector<OptionSpec> options;
  // Opens both parts. Throws Error(kUnavailable) when files are missing (says which and where to get
  // them), Error(kBadInput) with file and offset when they are damaged.
  DataSet (*open)(const DataConfig& config, const OptionMap& options);
  // The same with what was learnt when `known` was made, whatever the files have now. Null: nothing in the
  // files decides what samples are.
  DataSet (*reopen)(const DataConfig& config, const OptionMap& options, const KnownSet& known) = nullptr;
  SampleOrder order = SampleOrder::kMixed;
};

// All data sets known by name: "mnist", "fashion_mnist", "synthetic" and so on;
// docs/reference/data_formats.md describes them.
const std::vector<DataSetEntry>& data_sets();
// Throws Error(kBadInput) for a name that is not there, with the nearest one.
const DataSetEntry& find_data_set(const std::string& name);
// The options of data set `name`, those that every set has among them, with `given` in place of their
// defaults. Throws Error(kBadInput) for an unknown one.
OptionMap data_set_options(const std::string& name, const OptionMap& given);

// Opens what [data] names, with train_limit and test_limit applied. Throws Error(kBadInput) for an
// unknown name (with the nearest one) or option, and for augmentation of what is no image.
DataSet open_data_set(const DataConfig& config, const AroundPacking& around = {});
// As a run knows it: columns, tokens and classes are those of `known`. Throws Error(kBadInput) also when
// samples or classes are others.
DataSet open_data_set(const DataConfig& config, const KnownSet& known, const AroundPacking& around = {});

// What [data] names at this moment, opened: how many samples there are, and the names, sizes and times of
// files (of more than 10,000 the names alone; folders of runs among them are passed over). Where the files
// lie does not matter.
std::string data_fingerprint(const DataConfig& config, const DataSet& set);
// To be kept with a run on it.
KnownSet describe_data(const DataConfig& config, const DataSet& set);

}  // namespace distbelief::data
