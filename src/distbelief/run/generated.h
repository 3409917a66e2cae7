#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>

#include "distbelief/report/picture.h"
#include "distbelief/run/prepared_job.h"

// Generated samples for people to look at: images that dcgan and vae draw from noise, reconstructions by
// autoencoders, classes that a segmentation gives to pixels, text continued by a language model.
namespace distbelief::run {

struct DrawOptions {
  std::int64_t count = 64;
  std::uint64_t seed = 1;  // another seed gives other images
};
// Draws images [count, channels, height, width], 0 to 1. Returns an undefined tensor when the job's task
// draws no images. Equal options give equal images. Leaves the network in evaluation mode.
torch::Tensor draw_images(const PreparedJob& job, model::Network& network, const DrawOptions& options);

// The outputs of an autoencoder or vae as such images; an undefined tensor for other tasks, or samples that
// are no images.
torch::Tensor reconstructed_images(const PreparedJob& job, const torch::Tensor& output);

// Arranges such images, with 1 or 3 channels, in rows. Throws Error(kBadInput) for others.
report::Picture sheet_of(const torch::Tensor& images, int columns = 8);

// Writes files of a run folder for its report: samples.png of tasks that draw from noise, and the three files
// below. Writes nothing for other tasks. A failure is only logged, because the run itself is done. Leaves the
// network in training mode.
void keep_samples(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

// Each of these writes one file and returns whether it did. They throw errors, and leave the network in
// evaluation mode. reconstructions.png: the first test images, and below each its reconstruction from the
// autoencoder's code.
bool keep_reconstructions(const PreparedJob& job, model::Network& network,
                          const std::filesystem::path& run_dir);
// masks.png: the first test images, below each the classes that a segmentation gives to its pixels, and below
// those the true ones.
bool keep_masks(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);
// samples.json: a language model's continuation of the beginning of the first test sample.
bool keep_text(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

}  // namespace distbelief::run
