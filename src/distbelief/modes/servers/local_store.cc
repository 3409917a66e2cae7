#include "distbelief/modes/servers/local_store.h"

#include <algorithm>

#include "distbelief/compute/operations.h"

namespace distbelief::modes {
namespace {

constexpr std::size_t kSlice = std::size_t{256} << 10;  // elements; comm::kSliceElements, without gRPC

}  // namespace

void LocalStore::open(const Opening& opening) {
  point_.assign(opening.point.begin(), opening.point.end());
  portions_ = opening.portions;
  for (std::size_t begin = 0; begin < point_.size(); begin += kSlice)
    slices_.emplace_back(compute::VectorSlice::Options{.vectors = std::size_t(opening.vectors),
                                                       .portions = portions_,
                                                       .count = std::min(kSlice, point_.size() - begin)});
}

BatchStore::Work LocalStore::next(const std::function<void(std::int64_t)>& announce) {
  if (coordinator_.ends) return {};
  if (next_ == portions_) return {.kind = Work::Kind::kCoordinate, .evaluation = coordinator_.evaluation};
  announce(next_);
  return {.kind = Work::Kind::kPortion, .evaluation = coordinator_.evaluation, .portion = next_++};
}

void LocalStore::fetch(std::span<float> point) { std::copy(point_.begin(), point_.end(), point.begin()); }

void LocalStore::add(const Portion& portion) {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const compute::VectorSlice::Portion part{
        .evaluation = portion.evaluation,
        .portion = portion.portion,
        .weight = double(portion.samples) / double(portion.batch_samples),
        .loss = portion.loss,
        .values = portion.gradient.data() + i * kSlice};
    if (slices_[i].is_new(part)) slices_[i].add(part);
  }
}

std::vector<double> LocalStore::run(std::int64_t sequence, std::span<const Operation> operations) {
  std::vector<std::vector<double>> numbers;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    slices_[i].require_possible(sequence, operations);
    numbers.push_back(slices_[i].run(sequence, operations, point_.data() + i * kSlice));
  }
  return compute::over_slices(operations, numbers);
}

void LocalStore::advance(const Coordinator& coordinator) {
  coordinator_ = coordinator;
  next_ = 0;
}

}  // namespace distbelief::modes
