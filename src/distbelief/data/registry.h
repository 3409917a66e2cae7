#pragma once

#include <string>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/data/slices/sample_cache.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

struct KnownSet;

// The order of samples in a set. kByClass: samples of one class may be consecutive.
enum class SampleOrder { kMixed, kByClass };

struct DataSetEntry {
  std::string name;
  std::string description;
  std::vector<OptionSpec> options;
  // Opens both parts. Throws Error(kUnavailable) for missing files, with their names and where to get them,
  // and Error(kBadInput) with file and offset for damaged files.
  DataSet (*open)(const DataConfig& config, const OptionMap& options);
  // Opens the set with the preprocessing of `known`, whatever the files contain now. Null: nothing is fitted
  // on the files.
  DataSet (*reopen)(const DataConfig& config, const OptionMap& options, const KnownSet& known) = nullptr;
  SampleOrder order = SampleOrder::kMixed;
};

// All data sets by name: "mnist", "fashion_mnist", "synthetic" and so on; docs/reference/data_formats.md
// describes them.
const std::vector<DataSetEntry>& data_sets();
// For main(): not thread-safe. Throws Error(kBadInput) when the name is taken.
void register_data_set(DataSetEntry entry);
// Throws Error(kBadInput) for an unknown name, with the nearest known one.
const DataSetEntry& find_data_set(const std::string& name);
// The options of data set `name`, including the options of every set; `given` overrides the defaults. Throws
// Error(kBadInput) for an unknown option.
OptionMap data_set_options(const std::string& name, const OptionMap& given);

// Opens the data set of [data] and applies train_limit and test_limit. Throws Error(kBadInput) for an unknown
// name (with the nearest known one) or option, and for augmentation of samples that are not images.
DataSet open_data_set(const DataConfig& config, const AroundPacking& around = {});
// Opens the data set with the columns, tokens and classes of `known`. Also throws Error(kBadInput) when the
// shape of samples or the classes differ.
DataSet open_data_set(const DataConfig& config, const KnownSet& known, const AroundPacking& around = {});

// A hash of the data of [data] at this moment, given the opened set: the number of samples, and the names,
// sizes and times of the files (only the names when there are more than 10,000 files; run folders are
// skipped). The folder of the files does not matter.
std::string data_fingerprint(const DataConfig& config, const DataSet& set);
// The data manifest to keep with a run.
KnownSet describe_data(const DataConfig& config, const DataSet& set);

}  // namespace distbelief::data
