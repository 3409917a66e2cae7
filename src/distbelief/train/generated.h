#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>

#include "distbelief/report/picture.h"
#include "distbelief/train/job.h"

// What generative networks draw from noise: dcgan, and vae.
namespace distbelief::train {

struct DrawOptions {
  std::int64_t count = 64;
  std::uint64_t seed = 1;  // another one gives other images
};
// [count, channels, height, width], 0 to 1; no tensor when the job's task draws no images. The same for the
// same options. Leaves the network evaluating.
torch::Tensor draw_images(const PreparedJob& job, model::Network& network, const DrawOptions& options);

// Such images, of 1 or 3 channels, in rows of eight. Throws Error(kBadInput) for others.
report::Picture sheet_of(const torch::Tensor& images);

// samples.png of a run folder, for its report; nothing for other tasks. What fails is logged: the run itself
// is done. The network is in training mode afterwards.
void keep_samples(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

}  // namespace distbelief::train
