#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "distbelief/cli/predict_inputs.h"
#include "distbelief/report/picture_folder.h"
#include "distbelief/run/clusters.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/tasks/row_source.h"

// Converts a network's outputs to the answers of `distbelief predict`. Not thread-safe; writing a picture
// blocks.
namespace distbelief::cli {

struct AnswerOptions {
  int top = 3;  // classes to name
  report::PictureFolder& pictures;
  tasks::RowSource* rows = nullptr;  // of the model's tables; null if it has none
  std::optional<run::CodeClusters> clusters{};
};
// Returns one object per sample (docs/howto/use_a_trained_model.md), by task: `classes` or `values`; ctc:
// `labels` in order; masked tokens: the `hidden` ones; segmentation: a `picture` and its `classes`;
// autoencoder: the `code`, its `cluster` if clusters are known, and a `picture` for images; actor_critic: the
// `action`, its `probabilities` and the `value`, and with several voters their `votes`; gan: whether the
// sample is `real`.
nlohmann::json predict_answers(const run::PreparedJob& job, const GivenSamples& samples,
                               const InputReader& reader, const AnswerOptions& options);

}  // namespace distbelief::cli
