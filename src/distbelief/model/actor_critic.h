#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Two networks on observations [samples, count]: a policy with a logit for every action, and a value. The
// output is the logits, then the value. Names begin with `policy.` and `value.`. With several `voters` there
// is one pair for each (`policy.0.`, `value.0.`): the output is all their logits, then all their values. The
// training environments continue from step to step: their states are the buffer `worlds.rows`, with a row of
// observation and step count for each of `environments` = train.batch_size places of a batch
// (model/lane_place.h).
std::vector<OptionSpec> actor_critic_options();
Blueprint actor_critic_blueprint(const OptionMap& options, const DataShape& shape);

// The `worlds.rows` buffer of a network.
torch::Tensor carried_worlds(const Network& network);

}  // namespace distbelief::model
