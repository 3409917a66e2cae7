#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>

#include "distbelief/report/picture.h"
#include "distbelief/run/prepared_job.h"

// What networks make that people look at: what dcgan and vae draw from noise, what autoencoders make of an
// image, the classes that a segmentation gives to pixels, how a language model continues a text.
namespace distbelief::run {

struct DrawOptions {
  std::int64_t count = 64;
  std::uint64_t seed = 1;  // another one gives other images
};
// [count, channels, height, width], 0 to 1; no tensor when the job's task draws no images. The same for the
// same options. Leaves the network evaluating.
torch::Tensor draw_images(const PreparedJob& job, model::Network& network, const DrawOptions& options);

// What an autoencoder or vae answers, as such images; no tensor for other tasks, or for what is no image.
torch::Tensor reconstructed_images(const PreparedJob& job, const torch::Tensor& output);

// Such images, of 1 or 3 channels, in rows. Throws Error(kBadInput) for others.
report::Picture sheet_of(const torch::Tensor& images, int columns = 8);

// Files of a run folder, for its report: samples.png of what draws from noise, and the three below. Nothing
// for other tasks. What fails is logged: the run itself is done. The network is in training mode afterwards.
void keep_samples(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

// One of them alone; whether there is one. Throw what goes wrong, and leave the network evaluating.
// reconstructions.png: the first test images, and below each what an autoencoder makes of its code.
bool keep_reconstructions(const PreparedJob& job, model::Network& network,
                          const std::filesystem::path& run_dir);
// masks.png: the first test images, below each the classes that a segmentation gives to its pixels, and below
// those the true ones.
bool keep_masks(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);
// samples.json: how a language model continues the beginning of the first test sample.
bool keep_text(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

}  // namespace distbelief::run
