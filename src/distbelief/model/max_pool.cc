#include "distbelief/model/max_pool.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "distbelief/model/watched.h"

namespace distbelief::model {
namespace {

// Images as rows: the planes of samples and channels one after another.
struct Planes {
  std::int64_t count = 0, height = 0, width = 0;
};

Planes planes_of(const torch::Tensor& images) {
  return {.count = images.size(0) * images.size(1), .height = images.size(2), .width = images.size(3)};
}

// Four windows at a time, compared without branches.
constexpr std::int64_t kTogether = 4;
using Floats = float __attribute__((vector_size(kTogether * sizeof(float))));
using Places = std::int32_t __attribute__((vector_size(kTogether * sizeof(std::int32_t))));
using Bytes = std::uint8_t __attribute__((vector_size(kTogether)));

template <typename Vector, typename Value>
Vector loaded(const Value* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename Vector, typename Value>
void store(Value* to, const Vector& vector) {
  std::memcpy(to, &vector, sizeof vector);
}

// Chooses like torch: the first of equal values, the last NaN.
template <typename Value, typename Place>
void choose(const Value& value, const Place& place, Value& largest, Place& chosen) {
  const auto is_larger = (value > largest) | (value != value);
  largest = is_larger ? value : largest;
  chosen = is_larger ? place : chosen;
}

// Pools two rows of input to one of output.
void pool_rows(const float* upper, const float* lower, std::int64_t width, float* output,
               std::uint8_t* chosen) {
  std::int64_t x = 0;
  for (; x + kTogether <= width; x += kTogether) {
    const auto up = loaded<Floats>(upper + 2 * x), up_next = loaded<Floats>(upper + 2 * x + kTogether);
    const auto low = loaded<Floats>(lower + 2 * x), low_next = loaded<Floats>(lower + 2 * x + kTogether);
    Floats largest = __builtin_shufflevector(up, up_next, 0, 2, 4, 6);
    Places place{};
    choose(Floats(__builtin_shufflevector(up, up_next, 1, 3, 5, 7)), Places{} + 1, largest, place);
    choose(Floats(__builtin_shufflevector(low, low_next, 0, 2, 4, 6)), Places{} + 2, largest, place);
    choose(Floats(__builtin_shufflevector(low, low_next, 1, 3, 5, 7)), Places{} + 3, largest, place);
    store(output + x, largest);
    store(chosen + x, __builtin_convertvector(place, Bytes));
  }
  for (; x < width; ++x) {
    float largest = upper[2 * x];
    std::int32_t place = 0;
    choose(upper[2 * x + 1], 1, largest, place);
    choose(lower[2 * x], 2, largest, place);
    choose(lower[2 * x + 1], 3, largest, place);
    output[x] = largest;
    chosen[x] = std::uint8_t(place);
  }
}

void spread_row(const float* gradient, const std::uint8_t* chosen, std::int64_t width, float* upper,
                float* lower) {
  std::int64_t x = 0;
  for (; x + kTogether <= width; x += kTogether) {
    const auto value = loaded<Floats>(gradient + x);
    const Places place = __builtin_convertvector(loaded<Bytes>(chosen + x), Places);
    const Floats none{};
    for (int row = 0; row < 2; ++row) {
      const Floats left = place == 2 * row ? value : none, right = place == 2 * row + 1 ? value : none;
      float* const to = (row == 0 ? upper : lower) + 2 * x;
      store(to, Floats(__builtin_shufflevector(left, right, 0, 4, 1, 5)));
      store(to + kTogether, Floats(__builtin_shufflevector(left, right, 2, 6, 3, 7)));
    }
  }
  for (; x < width; ++x)
    for (int place = 0; place < 4; ++place)
      (place < 2 ? upper : lower)[2 * x + place % 2] = chosen[x] == place ? gradient[x] : 0.0F;
}

void pool(const Planes& planes, const float* input, float* output, std::uint8_t* chosen) {
  const std::int64_t height = planes.height / 2, width = planes.width / 2;
  for (std::int64_t plane = 0; plane < planes.count; ++plane)
    for (std::int64_t y = 0; y < height; ++y) {
      const float* const upper = input + (plane * planes.height + 2 * y) * planes.width;
      const std::int64_t at = (plane * height + y) * width;
      pool_rows(upper, upper + planes.width, width, output + at, chosen + at);
    }
}

// Leaves an odd last row or column unchanged.
void spread(const Planes& planes, const float* gradient, const std::uint8_t* chosen, float* input_gradient) {
  const std::int64_t height = planes.height / 2, width = planes.width / 2;
  for (std::int64_t plane = 0; plane < planes.count; ++plane)
    for (std::int64_t y = 0; y < height; ++y) {
      float* const upper = input_gradient + (plane * planes.height + 2 * y) * planes.width;
      const std::int64_t at = (plane * height + y) * width;
      spread_row(gradient + at, chosen + at, width, upper, upper + planes.width);
    }
}

class PoolFunction : public torch::autograd::Function<PoolFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input) {
    const torch::Tensor images = input.contiguous();
    const Planes planes = planes_of(images);
    const std::vector<std::int64_t> sizes{images.size(0), images.size(1), planes.height / 2,
                                          planes.width / 2};
    torch::Tensor output = torch::empty(sizes, images.options().requires_grad(false));
    torch::Tensor chosen = torch::empty(sizes, torch::kUInt8);
    pool(planes, images.data_ptr<float>(), output.data_ptr<float>(), chosen.data_ptr<std::uint8_t>());
    context->save_for_backward({chosen});
    context->saved_data["sizes"] = images.sizes().vec();
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::Tensor gradient = gradients[0].contiguous();
    const torch::Tensor chosen = context->get_saved_variables()[0];
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const bool is_whole = sizes[2] % 2 == 0 && sizes[3] % 2 == 0;
    torch::Tensor input_gradient =
        is_whole ? torch::empty(sizes, gradient.options()) : torch::zeros(sizes, gradient.options());
    spread(planes_of(input_gradient), gradient.data_ptr<float>(), chosen.data_ptr<std::uint8_t>(),
           input_gradient.data_ptr<float>());
    return {input_gradient};
  }
};

}  // namespace

torch::Tensor max_pool_2x2(const torch::Tensor& input) {
  const bool is_plain = input.dim() == 4 && input.device().is_cpu() && input.scalar_type() == torch::kFloat;
  if (!is_plain || is_watched()) return torch::max_pool2d(input, 2);
  return PoolFunction::apply(input);
}

}  // namespace distbelief::model
