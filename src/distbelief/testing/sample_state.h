#pragma once

#include <cstring>
#include <vector>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/checkpoint/store.h"

namespace distbelief::testing {

// A small training state: two parameters, buffers and optimizer state. All elements have the same value.
class SampleState {
 public:
  static constexpr std::size_t kParameters = 2;

  explicit SampleState(std::int64_t value)
      : floats_(96, static_cast<float>(value)),
        count_(value),
        views_{view("model.b", {12}),         view("model.a", {4, 24}),
               view("model.mean", {3}),       {"model.count", ElementType::kInt64, {}, bytes_of(&count_)},
               view("model.empty", {0}),      view("optimizer.mean.a", {4, 24}),
               view("optimizer.mean.b", {12})} {}
  SampleState(const SampleState&) = delete;
  SampleState& operator=(const SampleState&) = delete;

  std::span<const checkpoint::TensorView> views() const { return views_; }
  checkpoint::Snapshot snapshot(std::int64_t step) const {
    return {.step = step,
            .progress = {{"epoch", 1}, {"losses", {0.1, 2.5e-8}}},
            .tensors = views_,
            .metadata = {{"model", "mlp"}},
            .weights = kParameters};
  }
  void fill(std::int64_t value) {
    floats_.assign(floats_.size(), static_cast<float>(value));
    count_ = value;
  }
  // Whether a checkpoint holds exactly the bytes of this state.
  bool is_in(const checkpoint::Loaded& loaded) const {
    std::vector<std::byte> buffer;
    for (const checkpoint::TensorView& wanted : views_) {
      const checkpoint::TensorView& found = loaded.tensor(wanted.name);
      if (found.shape != wanted.shape ||
          std::memcmp(checkpoint::bytes_of(found, buffer), wanted.data, wanted.byte_count()) != 0)
        return false;
    }
    return loaded.tensors.all().size() == views_.size();
  }

 private:
  template <typename T>
  static const std::byte* bytes_of(const T* data) {
    return reinterpret_cast<const std::byte*>(data);
  }
  checkpoint::TensorView view(const char* name, Shape shape) const {
    return {name, ElementType::kFloat32, std::move(shape), bytes_of(floats_.data())};
  }

  std::vector<float> floats_;
  std::int64_t count_;
  std::vector<checkpoint::TensorView> views_;
};

inline std::size_t count_temporaries(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for (const auto& found : std::filesystem::recursive_directory_iterator(folder))
    count += found.path().filename().string().starts_with(kTemporaryPrefix);
  return count;
}

}  // namespace distbelief::testing
