#pragma once

#include <string>
#include <vector>

#include "distbelief/comm/communicator.h"

namespace distbelief::comm {

// Returns the texts of all ranks, on every rank. Collective.
std::vector<std::string> exchange_texts(Communicator& workers, const std::string& own);
std::string broadcast_text(Communicator& workers, std::string text, int root);

}  // namespace distbelief::comm
