#pragma once

#include <functional>

#include "distbelief/comm/world.h"

namespace distbelief::run {

// Each worker does what it has to do, on another thread, and all wait until every one of them is done: for
// however long that takes, as nobody waits longer than a moment to hear that it goes on. For what a disk
// decides. Collective; throws what `work` throws here, when all are done.
void do_patiently(World& world, const std::function<void()>& work);

}  // namespace distbelief::run
