#include "distbelief/compute/operations.h"
#include "distbelief/server/client/client.h"

// The replica's side of a batch method: commands, and the coordinator's state.
namespace distbelief::server {

using comm::StoreAnswer;

std::vector<double> Client::run(std::int64_t sequence, std::span<const Operation> operations) {
  std::vector<Part> parts;
  for (std::int64_t slice = 0; slice < std::int64_t(slices()); ++slice) {
    Part& part = parts.emplace_back(Part{.message = message(Kind::kCommand), .slice = slice});
    part.message.sequence = sequence;
    part.message.operations.assign(operations.begin(), operations.end());
  }
  std::vector<std::vector<double>> numbers;
  for (StoreAnswer& answer : exchange(std::move(parts), options_.deadline))
    numbers.push_back(std::move(answer.numbers));
  return compute::over_slices(operations, numbers);
}

Client::Coordinator Client::coordinator() {
  StoreAnswer answer = exchange_one({.message = message(Kind::kCoordinator)}, options_.deadline);
  return {.evaluation = answer.version,
          .numbers = std::move(answer.numbers),
          .ends = answer.outcome == StoreAnswer::Outcome::kEnd};
}

void Client::advance(const Coordinator& coordinator) {
  Part part{.message = message(Kind::kAdvance)};
  part.message.ticket = coordinator.evaluation;
  part.message.numbers = coordinator.numbers;
  part.message.ends = coordinator.ends;
  exchange_one(std::move(part), options_.deadline);
}

}  // namespace distbelief::server
