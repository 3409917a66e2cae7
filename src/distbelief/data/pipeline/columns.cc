#include "distbelief/data/pipeline/columns.h"

#include <cstring>

#include "distbelief/base/error.h"

namespace distbelief::data {

void Source::read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                          void* target) const {
  thread_local std::vector<std::byte> whole;
  const std::size_t size = element_size(spec_.input_type);
  whole.resize(size * std::size_t(element_count(spec_.input_shape)));
  read(index, whole.data(), target);
  std::memcpy(input, whole.data() + size * begin, size * count);
}

Columns::Columns(std::unique_ptr<Source> whole, std::uint64_t begin, std::uint64_t count)
    : whole_(std::move(whole)),
      begin_(begin),
      count_(count) {
  const SampleSpec& all = whole_->spec();
  DISTBELIEF_INVARIANT(all.input_shape.size() == 3 && count > 0);
  const std::uint64_t pixels = std::uint64_t(all.input_shape[1] * all.input_shape[2]);
  const std::uint64_t first = begin / pixels, last = (begin + count - 1) / pixels;
  spec_ = all;
  const auto columns = std::int64_t(count);
  spec_.input_shape = first == last ? Shape{1, 1, columns} : Shape{columns, 1, 1};
  for (auto* numbers : {&spec_.mean, &spec_.deviation}) {
    if (numbers->empty()) continue;
    std::vector<float> own;
    for (std::uint64_t i = 0; i < std::uint64_t(spec_.input_shape[0]); ++i)
      own.push_back((*numbers)[std::size_t((begin + i) / pixels)]);
    *numbers = std::move(own);
  }
}

}  // namespace distbelief::data
