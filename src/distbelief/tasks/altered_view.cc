#include "distbelief/tasks/altered_view.h"

#include <algorithm>

#include "distbelief/base/array.h"
#include "distbelief/model/device.h"
#include "distbelief/model/random.h"

namespace distbelief::tasks {
namespace {

// The largest change in either direction.
constexpr double kTurn = 0.4;         // radians
constexpr double kShear = 0.25;       // of the height
constexpr double kScale = 0.2;        // relative
constexpr double kMove = 0.28;        // of half a side
constexpr double kContrast = 0.5;     // relative
constexpr double kBrightness = 0.25;  // in standard deviations
constexpr double kHole = 0.4;         // of each side; fixed size
constexpr double kNoise = 0.1;        // standard deviation; for features

torch::Tensor drawn(std::int64_t samples, double most) {
  const auto generator = model::current_generator();
  torch::Tensor values = torch::empty({samples});
  return generator ? values.uniform_(-most, most, *generator) : values.uniform_(-most, most);
}

torch::Tensor with_noise(const torch::Tensor& features) {
  const auto generator = model::current_generator();
  torch::Tensor noise = torch::empty_like(features, torch::kCPU);
  generator ? noise.normal_(0, kNoise, *generator) : noise.normal_(0, kNoise);
  return features + model::on_device(noise, features.device());
}

// Pixels from outside the image repeat its edge.
torch::Tensor moved(const torch::Tensor& images) {
  const std::int64_t count = images.size(0);
  const torch::Tensor turn = drawn(count, kTurn), shear = drawn(count, kShear);
  const torch::Tensor scale = 1 + drawn(count, kScale), sine = turn.sin(), cosine = turn.cos();
  const torch::Tensor places =
      torch::stack({scale * cosine, scale * (shear * cosine - sine), drawn(count, kMove), scale * sine,
                    scale * (shear * sine + cosine), drawn(count, kMove)},
                   1)
          .view({count, 2, 3});
  constexpr std::int64_t kBilinear = 0, kEdge = 1;
  const torch::Tensor grid = torch::affine_grid_generator(model::on_device(places, images.device()),
                                                          images.sizes(), /*align_corners=*/false);
  return torch::grid_sampler(images, grid, kBilinear, kEdge, /*align_corners=*/false);
}

// Marks the rows or columns of each image's hole; its centre may be anywhere.
torch::Tensor hole(const torch::Tensor& images, std::int64_t dimension) {
  const std::int64_t size = images.size(dimension);
  const double width = std::max(1.0, double(size) * kHole);
  const torch::Tensor begin =
      (drawn(images.size(0), 0.5) * double(size) + (double(size) - width) / 2).unsqueeze(1);
  const torch::Tensor at = torch::arange(size).unsqueeze(0);
  Shape shape{images.size(0), 1, 1, 1};
  shape[std::size_t(dimension)] = size;
  return model::on_device(at.ge(begin).logical_and(at.lt(begin + width)).view(shape), images.device());
}

}  // namespace

torch::Tensor altered_view(const torch::Tensor& samples) {
  if (samples.dim() != 4) return with_noise(samples);
  const auto each = [&](const torch::Tensor& values) {
    return model::on_device(values.view({-1, 1, 1, 1}), samples.device());
  };
  const std::int64_t count = samples.size(0);
  const torch::Tensor images =
      moved(samples) * each(1 + drawn(count, kContrast)) + each(drawn(count, kBrightness));
  const torch::Tensor rows = hole(samples, 2), columns = hole(samples, 3);
  return images.masked_fill(rows.logical_and(columns), 0);
}

}  // namespace distbelief::tasks
