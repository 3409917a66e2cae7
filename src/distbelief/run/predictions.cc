#include "distbelief/run/predictions.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "distbelief/data/pipeline/order.h"
#include "distbelief/model/device.h"
#include "distbelief/report/picture.h"
#include "distbelief/report/summary.h"
#include "distbelief/tasks/evaluation.h"
#include "distbelief/tasks/task.h"

namespace distbelief::run {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShown = 12;  // samples per kind
constexpr int kThumbnail = 96;      // pixels, at most

struct Answer {
  std::uint64_t sample = 0;
  std::int64_t label = 0;
  std::int64_t predicted = 0;
  double probability = 0;
};

// The image before augmentation and normalization; empty if the sample is no image.
std::string thumbnail(const data::Source& samples, std::uint64_t index) {
  const data::SampleSpec& spec = samples.spec();
  const bool is_image = spec.input_type == ElementType::kUint8 && spec.input_shape.size() == 3 &&
                        (spec.input_shape[0] == 1 || spec.input_shape[0] == 3);
  if (!is_image) return "";
  std::vector<std::uint8_t> pixels(std::size_t(element_count(spec.input_shape)));
  std::int64_t target = 0;
  samples.read(index, pixels.data(), &target);
  const report::PlanarImage image{.channels = int(spec.input_shape[0]),
                                  .height = int(spec.input_shape[1]),
                                  .width = int(spec.input_shape[2]),
                                  .pixels = pixels};
  return report::base64(report::encode_png(report::picture_of(image, kThumbnail)));
}

Json to_json(const data::Source& samples, const std::vector<Answer>& answers) {
  Json all = Json::array();
  for (const Answer& answer : answers) {
    all.push_back({{"sample", answer.sample},
                   {"label", answer.label},
                   {"predicted", answer.predicted},
                   {"probability", answer.probability}});
    if (std::string image = thumbnail(samples, answer.sample); !image.empty())
      all.back()["image"] = std::move(image);
  }
  return all;
}

class AnswerTally {
 public:
  void add(const Answer& answer) {
    ++cells_[{answer.label, answer.predicted}];
    ++count_;
    if (first_.size() < kShown) first_.push_back(answer);
    if (answer.label == answer.predicted) return;
    mistakes_.push_back(answer);
    std::stable_sort(mistakes_.begin(), mistakes_.end(),
                     [](const Answer& a, const Answer& b) { return a.probability > b.probability; });
    if (mistakes_.size() > kShown) mistakes_.pop_back();
  }

  Json result(const data::Source& samples) const {
    Json cells = Json::array();
    for (const auto& [cell, count] : cells_) cells.push_back({cell.first, cell.second, count});
    Json found{{"samples", count_},
               {"of", samples.size()},
               {"classes", samples.spec().classes},
               {"confusion", cells},
               {"first", to_json(samples, first_)},
               {"mistakes", to_json(samples, mistakes_)}};
    if (!samples.spec().class_names.empty()) found["names"] = samples.spec().class_names;
    return found;
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> cells_;
  std::int64_t count_ = 0;
  std::vector<Answer> first_, mistakes_;
};

bool gives_one_class(const data::SampleSpec& spec, const torch::Tensor& output) {
  return output.dim() == 2 && output.size(1) == spec.classes && output.is_floating_point();
}

void add_batch(AnswerTally& tally, const torch::Tensor& answers, const data::Batch& batch) {
  const auto [probabilities, classes] = answers.max(1);
  const torch::Tensor targets = tasks::as_tensors(batch).target;
  for (std::int64_t i = 0; i < answers.size(0); ++i)
    tally.add({.sample = batch.samples[std::size_t(i)],
               .label = targets[i].item<std::int64_t>(),
               .predicted = classes[i].item<std::int64_t>(),
               .probability = probabilities[i].item<double>()});
}

}  // namespace

torch::Tensor probabilities_of(const torch::Tensor& output, const std::string& loss) {
  if (loss != "mse") return torch::softmax(output, 1);  // also for log-probabilities
  const torch::Tensor shares = output.clamp(0, 1);
  return shares / shares.sum(1, /*keepdim=*/true).clamp_min(1e-12);
}

Json score_predictions(const PreparedJob& job, model::Network& network, const PredictionLimits& limits) {
  const data::Source& samples = *job.data.test;
  const data::SampleSpec& spec = samples.spec();
  if (spec.classes < 1 || spec.target_type != ElementType::kInt64 || !spec.target_shape.empty())
    return Json();
  const auto end = std::chrono::steady_clock::now() + limits.time;
  const torch::NoGradGuard no_grad;
  const data::BatchMaker maker(samples,
                               {.seed = job.config.train.seed, .normalize = job.config.data.normalize});
  const std::uint64_t count = std::min(samples.size(), limits.samples);
  const data::Order order(data::Permutation(samples.size(), job.config.train.seed, 0));
  AnswerTally tally;
  data::Batch batch;
  bool fits = count > 0;
  network.eval();
  for (std::uint64_t first = 0; fits && first < count; first += tasks::kEvaluationChunk) {
    maker.train_batch(order, 0, {first, std::min(count, first + tasks::kEvaluationChunk)}, batch);
    const torch::Tensor output =
        network.forward(model::on_device(tasks::as_tensors(batch).input, network.device()));
    fits = gives_one_class(spec, output);
    if (fits) add_batch(tally, probabilities_of(output, job.config.train.loss), batch);
    if (std::chrono::steady_clock::now() > end) break;
  }
  network.train();
  return fits ? tally.result(samples) : Json();
}

void keep_predictions(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir) {
  try {
    const Json found = score_predictions(job, network, PredictionLimits{});
    if (!found.is_null()) report::write_json_atomically(run_dir / "predictions.json", found);
  } catch (const std::exception& error) {
    spdlog::warn("no predictions for the report: {}", error.what());
  }
}

}  // namespace distbelief::run
