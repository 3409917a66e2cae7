#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "distbelief/cli/predict_inputs.h"
#include "distbelief/report/picture_folder.h"
#include "distbelief/run/clusters.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/tasks/row_source.h"

// What `distbelief predict` makes of a network's outputs. Not thread-safe; writing a picture blocks.
namespace distbelief::cli {

struct AnswerOptions {
  int top = 3;  // classes to name
  report::PictureFolder& pictures;
  tasks::RowSource* rows = nullptr;  // of the model's tables, if it has any
  std::optional<run::CodeClusters> clusters{};
};
// An object for each sample (docs/howto/use_a_trained_model.md): `classes`, or `values`; of ctc `labels` in
// order; of masked tokens `hidden` ones; of a segmentation a `picture` and its `classes`; of an autoencoder
// the `code`, its `cluster` where they are known, and of images a `picture`; of an actor_critic the `action`,
// its `probabilities` and the `value`, with several voters their `votes`; of a gan whether it is `real`.
nlohmann::json predict_answers(const run::PreparedJob& job, const GivenSamples& samples,
                               const InputReader& reader, const AnswerOptions& options);

}  // namespace distbelief::cli
