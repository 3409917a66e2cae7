#include "distbelief/comm/texts.h"

namespace distbelief::comm {

std::string broadcast_text(Communicator& workers, std::string text, int root) {
  auto length = std::int64_t(text.size());
  workers.broadcast(view(&length, 1), root);
  text.resize(std::size_t(length));
  workers.broadcast(view(reinterpret_cast<std::byte*>(text.data()), text.size()), root);
  return text;
}

std::vector<std::string> exchange_texts(Communicator& workers, const std::string& own) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < workers.size(); ++rank)
    texts.push_back(broadcast_text(workers, rank == workers.rank() ? own : std::string(), rank));
  return texts;
}

}  // namespace distbelief::comm
