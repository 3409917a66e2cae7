#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Two networks on observations [samples, count]: a policy, which gives a logit for every action, and a value.
// The output is the logits and then the value. Names begin with `policy.` and `value.`. With several `voters`
// there is such a pair for each (`policy.0.`, `value.0.`): all their logits, then all their values. The
// environments that the training steps act in go on from step to step: their states are the buffer
// `worlds.rows`, a row of observation and steps for each of `environments` = train.batch_size places of a
// batch (model/lane_place.h).
std::vector<OptionSpec> actor_critic_options();
Blueprint actor_critic_blueprint(const OptionMap& options, const DataShape& shape);

// That buffer of a network.
torch::Tensor carried_worlds(const Network& network);

}  // namespace distbelief::model
