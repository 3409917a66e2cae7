#pragma once

#include <memory>

#include "distbelief/data/source.h"

namespace distbelief::data {

// Some features of another source's samples: partitioning by feature (S3.12). Its samples are rows of
// columns: [1, 1, count] when they are of one channel, so share its mean and deviation, else [count, 1, 1].
class Columns final : public Source {
 public:
  // Elements [begin, begin + count) of each sample's input, which are bytes.
  Columns(std::unique_ptr<Source> whole, std::uint64_t begin, std::uint64_t count);

  std::uint64_t size() const override { return whole_->size(); }
  void read(std::uint64_t index, void* input, void* target) const override {
    whole_->read_columns(index, begin_, count_, input, target);
  }
  void expect(std::uint64_t index) const override { whole_->expect(index); }
  Locality locality() const override { return whole_->locality(); }
  void announce(Range samples) const override { whole_->announce(samples); }

 private:
  std::unique_ptr<Source> whole_;
  std::uint64_t begin_;
  std::uint64_t count_;
};

}  // namespace distbelief::data
