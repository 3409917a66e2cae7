#pragma once

#include <functional>

#include "distbelief/comm/world.h"

namespace distbelief::run {

// Runs `work` on another thread; all ranks exchange heartbeats until every rank is done. The work may take
// any time, e.g. writing to a disk, without a deadline expiring. Collective; throws what this rank's `work`
// throws, after all ranks are done.
void do_patiently(World& world, const std::function<void()>& work);

}  // namespace distbelief::run
