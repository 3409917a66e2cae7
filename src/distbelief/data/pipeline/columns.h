#pragma once

#include <memory>

#include "distbelief/data/source.h"

namespace distbelief::data {

// A range of features of another source's samples, for partitioning by feature. Samples have shape [1, 1,
// count] when the range lies in one channel and thus shares its mean and deviation, otherwise [count, 1, 1].
class Columns final : public Source {
 public:
  // Selects elements [begin, begin + count) of each input; the inputs must be bytes.
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
