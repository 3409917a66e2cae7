#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "distbelief/tasks/task.h"

namespace distbelief::modes {

// Input and output of a sub-network in one step, for the thread that trains it.
struct SubNetworkTraffic {
  std::vector<std::byte> input{};  // floats, from the sub-network before
  torch::Tensor output{};          // for the next, on the host; none: it is the last
};

// The task of a sub-network: that of the model, with the output of the sub-network before in place of the
// data where `input`, its shape of a sample, says so. `traffic` outlives it.
struct SubNetworkSite {
  SubNetworkTraffic* traffic = nullptr;
  Shape input{};  // empty: the data's
};
std::unique_ptr<tasks::Task> make_sub_network_task(std::unique_ptr<tasks::Task> whole,
                                                   const SubNetworkSite& site);

}  // namespace distbelief::modes
