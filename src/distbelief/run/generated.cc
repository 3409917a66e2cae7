#include "distbelief/run/generated.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/model/dcgan.h"
#include "distbelief/model/device.h"
#include "distbelief/model/random.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/sampling_text.h"
#include "distbelief/tasks/task.h"

namespace distbelief::run {
namespace {

constexpr int kSheetColumns = 8;
constexpr std::uint64_t kReconstructed = 32;
constexpr std::uint64_t kMaskedShown = 8;
constexpr std::ptrdiff_t kPrompt = 16;        // tokens
constexpr std::chrono::seconds kTextTime{2};  // limit for slow networks

torch::Tensor drawn_by_generator(const PreparedJob& job, model::Network& network, std::int64_t count) {
  Shape batch = job.shape.input;
  batch.insert(batch.begin(), count);
  return network.forward(model::kGeneratorBlock,  // the block draws the noise itself
                         model::on_device(torch::zeros(batch), network.device()));
}

// Sends codes from the prior through the decoder: the blocks after those of the encoder (one per entry of
// `hidden`) and of the code. Mean and variance bypass the decoder; here they are zero.
torch::Tensor drawn_by_decoder(const PreparedJob& job, model::Network& network, std::int64_t count) {
  const OptionMap options = model::resolved_options(job.config.model);
  const auto code = option<std::int64_t>(options, "code");
  const auto encoder = int(option<std::vector<std::int64_t>>(options, "hidden").size());
  torch::Tensor x = torch::zeros({count, 3 * code});
  x.narrow(1, 0, code).normal_(0, 1, *model::current_generator());
  x = model::on_device(x, network.device());
  for (int block = encoder + 1; block < int(job.blueprint.size()); ++block) x = network.forward(block, x);
  Shape images = job.shape.input;
  images.insert(images.begin(), count);
  return x.narrow(1, 0, element_count(job.shape.input)).reshape(images);
}

bool reconstructs_images(const PreparedJob& job) {
  const std::string task = tasks::task_name(job.config, job.data.train->spec());
  const Shape& shape = job.shape.input;
  return (task == "autoencoder" || task == "vae") && shape.size() == 3 && (shape[0] == 1 || shape[0] == 3);
}

// Converts network inputs back to values as in the data files, in host memory.
torch::Tensor as_stored(const PreparedJob& job, torch::Tensor images) {
  images = model::on_device(std::move(images), torch::kCPU);
  const data::SampleSpec& spec = job.data.train->spec();
  if (!job.config.data.normalize || spec.mean.empty()) return images;
  const Shape each{1, std::int64_t(spec.mean.size()), 1, 1};
  return images * torch::tensor(spec.deviation).view(each) + torch::tensor(spec.mean).view(each);
}

// The result borrows the memory of `batch`.
tasks::TensorBatch first_of_test(const PreparedJob& job, std::uint64_t most, data::Batch& batch) {
  const data::BatchMaker maker(*job.data.test,
                               {.seed = job.config.train.seed, .normalize = job.config.data.normalize});
  maker.eval_batch({0, std::min(job.data.test->size(), most)}, batch);
  return tasks::as_tensors(batch);
}

// `classes` is [height, width].
report::Picture picture_of_classes(const torch::Tensor& classes) {
  const model::HostValues<std::int64_t> pixels(classes);
  return report::picture_of({.height = int(classes.size(0)),
                             .width = int(classes.size(1)),
                             .classes = {pixels.data(), pixels.size()}});
}

}  // namespace

torch::Tensor draw_images(const PreparedJob& job, model::Network& network, const DrawOptions& options) {
  const std::string task = tasks::task_name(job.config, job.data.train->spec());
  const bool variational = task == "vae" && job.config.model.name == "vae" && job.shape.input.size() == 3;
  if (task != "gan" && !variational) return {};
  const torch::NoGradGuard no_grad;
  const model::GeneratorScope randomness(options.seed);
  network.eval();
  const torch::Tensor images = variational ? drawn_by_decoder(job, network, options.count)
                                           : drawn_by_generator(job, network, options.count);
  return as_stored(job, images).clamp(0, 1);
}

torch::Tensor reconstructed_images(const PreparedJob& job, const torch::Tensor& output) {
  if (!reconstructs_images(job)) return {};
  const Shape& shape = job.shape.input;
  return as_stored(job, output.narrow(1, 0, element_count(shape)).reshape({-1, shape[0], shape[1], shape[2]}))
      .clamp(0, 1);
}

report::Picture sheet_of(const torch::Tensor& images, int columns) {
  if (images.size(1) != 1 && images.size(1) != 3)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a sheet of samples wants images of 1 or 3 channels, this model draws {}",
                            images.size(1)));
  const torch::Tensor rows = (images * 255).round().to(torch::kUInt8).permute({0, 2, 3, 1});
  const model::HostValues<std::uint8_t> bytes(rows);
  const std::int64_t each = rows.size(1) * rows.size(2) * rows.size(3);
  std::vector<report::Picture> pictures;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const std::uint8_t* begin = bytes.data() + i * each;
    pictures.push_back({.width = int(rows.size(2)),
                        .height = int(rows.size(1)),
                        .channels = int(rows.size(3)),
                        .bytes = {begin, begin + each}});
  }
  return report::contact_sheet(pictures, columns);
}

bool keep_reconstructions(const PreparedJob& job, model::Network& network,
                          const std::filesystem::path& run_dir) {
  if (!reconstructs_images(job)) return false;
  const torch::NoGradGuard no_grad;
  data::Batch batch;
  const torch::Tensor input = first_of_test(job, kReconstructed, batch).input;
  network.eval();
  const torch::Tensor made =
      reconstructed_images(job, network.forward(model::on_device(input, network.device())));
  const torch::Tensor given = as_stored(job, input).clamp(0, 1);
  const std::int64_t columns = std::min<std::int64_t>(kSheetColumns, given.size(0));
  std::vector<torch::Tensor> rows;
  for (std::int64_t first = 0; first + columns <= given.size(0); first += columns)
    for (const torch::Tensor& images : {given, made}) rows.push_back(images.narrow(0, first, columns));
  report::write_png(run_dir / "reconstructions.png", sheet_of(torch::cat(rows), int(columns)));
  return true;
}

bool keep_masks(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir) {
  const Shape& shape = job.shape.input;
  if (tasks::task_name(job.config, job.data.train->spec()) != "segmentation" || job.data.test->size() == 0 ||
      (shape[0] != 1 && shape[0] != 3))
    return false;
  const torch::NoGradGuard no_grad;
  data::Batch batch;
  const tasks::TensorBatch first = first_of_test(job, kMaskedShown, batch);
  network.eval();
  const torch::Tensor answers = network.forward(model::on_device(first.input, network.device())).argmax(1);
  const torch::Tensor images = as_stored(job, first.input).clamp(0, 1).expand({-1, 3, -1, -1});
  std::vector<report::Picture> pictures;
  for (std::int64_t i = 0; i < first.size; ++i) pictures.push_back(sheet_of(images.narrow(0, i, 1)));
  for (const torch::Tensor& classes : {answers, first.target.view(answers.sizes())})
    for (std::int64_t i = 0; i < first.size; ++i) pictures.push_back(picture_of_classes(classes[i]));
  report::write_png(run_dir / "masks.png", report::contact_sheet(pictures, int(first.size)));
  return true;
}

bool keep_text(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir) {
  if (!continues_tokens(job) || job.data.test->size() == 0) return false;
  data::Batch batch;
  const model::HostValues<std::int64_t> sample(first_of_test(job, 1, batch).input);
  const TokenText text(job.data, job.shape.classes);
  std::vector<std::int64_t> prompt(
      sample.begin(), sample.begin() + std::min<std::ptrdiff_t>(kPrompt, sample.end() - sample.begin()));
  // Sentences begin with that token and are padded with it.
  if (const auto end = std::find(prompt.begin() + 1, prompt.end(), text.last()); end != prompt.end())
    prompt.erase(end - (end - prompt.begin() > 2 ? 1 : 0),
                 prompt.end());  // leaves the last word to the network
  const std::vector<std::int64_t> added =
      continue_tokens(network, prompt,
                      {.context = context_of(job.config.model, job.shape.input[0]),
                       .seed = job.config.train.seed,
                       .last = text.last(),
                       .most_time = kTextTime});
  report::write_json_atomically(run_dir / "samples.json",
                                {{"prompt", text.shown(prompt)}, {"text", text.shown(added)}});
  return true;
}

void keep_samples(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir) {
  try {
    const torch::Tensor images = draw_images(job, network, {.seed = job.config.train.seed});
    if (images.defined()) report::write_png(run_dir / "samples.png", sheet_of(images));
    keep_reconstructions(job, network, run_dir);
    keep_masks(job, network, run_dir);
    keep_text(job, network, run_dir);
  } catch (const std::exception& error) {
    spdlog::warn("no samples for the report: {}", error.what());
  }
  network.train();
}

}  // namespace distbelief::run
