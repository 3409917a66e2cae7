#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// DCGAN (Radford et al., 2015) for images whose sides are multiples of 4. The network's two blocks are a
// generator of transposed convolutions and a discriminator of convolutions. The generator takes noise
// [samples, latent], or any batch, from which it takes only the size and draws the noise itself. It produces
// images in [0, 1], so data.normalize = false. The discriminator gives one logit per image. Names begin with
// `generator.` and `discriminator.`.
std::vector<OptionSpec> dcgan_options();
Blueprint dcgan_blueprint(const OptionMap& options, const DataShape& shape);

// A batch of noise for the generator.
torch::Tensor dcgan_noise(const OptionMap& options, std::int64_t samples);

inline constexpr int kGeneratorBlock = 0;
inline constexpr int kDiscriminatorBlock = 1;

}  // namespace distbelief::model
