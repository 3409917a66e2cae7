// A source of data of one's own: images of stripes, whose distance is their class.
#include <cstring>

#include "distbelief/cli/extension.h"
#include "parts.h"

using namespace distbelief;

namespace {

class Stripes final : public data::Source {
 public:
  Stripes(std::uint64_t samples, std::int64_t classes) : samples_(samples) {
    spec_.input_shape = {1, kSide, kSide};
    spec_.classes = classes;
  }
  std::uint64_t size() const override { return samples_; }
  void read(std::uint64_t index, void* input, void* target) const override {
    const auto label = std::int64_t(index % std::uint64_t(spec_.classes));
    auto* pixel = static_cast<std::uint8_t*>(input);
    for (std::uint64_t row = 0; row < kSide; ++row, pixel += kSide)
      std::memset(pixel, (row + index) % std::uint64_t(label + 2) == 0 ? 255 : 0, kSide);
    std::memcpy(target, &label, sizeof(label));
  }

 private:
  static constexpr std::int64_t kSide = 12;
  std::uint64_t samples_;
};

data::DataSet open_stripes(const DataConfig&, const OptionMap& options) {
  const auto classes = option<std::int64_t>(options, "classes");
  return {.train = std::make_unique<Stripes>(640, classes), .test = std::make_unique<Stripes>(160, classes)};
}

}  // namespace

void register_own_data_set() {
  register_data_set({.name = "stripes",
                     .description = "images of stripes; their distance is the class",
                     .options = {{"classes", std::int64_t{4}, "distances"}},
                     .open = open_stripes});
}
