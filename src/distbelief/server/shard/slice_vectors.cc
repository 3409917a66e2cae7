#include <algorithm>
#include <iterator>
#include <utility>

#include "distbelief/server/shard/slice.h"

// A slice with several vectors: the effects of portions and commands.
namespace distbelief::server {

std::size_t Slice::most_arrays() const {
  return arrays() + (options_.vectors ? compute::VectorSlice::most_arrays(*options_.vectors) : 0);
}

Slice::Applied Slice::add(std::int64_t ticket, std::int32_t replica,
                          const compute::VectorSlice::Portion& portion) {
  const std::lock_guard lock(mutex_);
  require_values();
  const bool is_new = vectors_->is_new(portion);
  if (is_new) {
    // First: an update that cannot be logged is not done.
    if (options_.log)
      options_.log->append({.slice = options_.number,
                            .version = version_ + 1,
                            .ticket = ticket,
                            .replica = replica,
                            .base = portion.evaluation,
                            .lr = 0});
    vectors_->add(portion);
    count_sums();
    ++version_;
  }
  return {.repeated = !is_new, .version = version_, .lr = 0, .direction = portion.values};
}

bool Slice::has_portion(std::int64_t evaluation, std::int64_t portion) {
  const std::lock_guard lock(mutex_);
  if (!vectors_ || evaluation > vectors_->evaluation()) return false;
  return !vectors_->is_new({.evaluation = evaluation, .portion = portion});
}

namespace {

// Sums beyond those that bytes_for() already counts.
std::size_t sums_beyond(std::size_t sums) { return sums - std::min(sums, compute::PortionSum::kSpare); }

}  // namespace

bool Slice::reserve_sum(std::int64_t evaluation, std::int64_t portion) {
  const std::lock_guard lock(mutex_);
  if (!vectors_ || evaluation != vectors_->evaluation() || portion < 0 || vectors_->sum().has(portion))
    return true;
  const std::size_t wanted = sums_beyond(vectors_->sum().arrays_with_another());
  if (wanted <= counted_sums_) return true;
  const std::size_t bytes = (wanted - counted_sums_) * size() * sizeof(float);
  if (options_.budget != nullptr && !options_.budget->take(bytes)) return false;
  counted_sums_ = wanted;
  return true;
}

void Slice::count_sums() {
  const std::size_t sums = vectors_ ? sums_beyond(vectors_->sum().arrays()) : 0;
  const std::size_t before = std::exchange(counted_sums_, sums);
  if (options_.budget == nullptr) return;
  if (sums > before) options_.budget->add((sums - before) * size() * sizeof(float));
  if (sums < before) options_.budget->give_back((before - sums) * size() * sizeof(float));
}

Slice::Ran Slice::run(std::int64_t sequence, std::span<const Operation> operations) {
  const std::lock_guard lock(mutex_);
  require_values();
  vectors_->require_possible(sequence, operations);
  const bool is_new = vectors_->is_new(sequence);
  if (is_new && options_.log) options_.log->append_command(options_.number, version_ + 1, sequence);
  Ran ran{.repeated = !is_new, .numbers = vectors_->run(sequence, operations, values_.data())};
  count_sums();
  version_ += is_new ? 1 : 0;
  ran.version = version_;
  return ran;
}

// They follow the values and the rule's arrays.
void Slice::add_vectors(State& state) const {
  const std::vector<std::int64_t> words = vectors_->words();
  state.counts.insert(state.counts.end(), words.begin(), words.end());
  for (std::vector<float>& array : vectors_->arrays()) state.arrays.push_back(std::move(array));
}

void Slice::take_vectors(State& state) {
  const auto first_word =
      state.counts.begin() + std::ptrdiff_t(std::min(counts_.size(), state.counts.size()));
  const auto first_array = state.arrays.begin() + std::ptrdiff_t(arrays());
  compute::VectorSlice taken(*options_.vectors);
  taken.install({first_word, state.counts.end()},
                {std::make_move_iterator(first_array), std::make_move_iterator(state.arrays.end())});
  vectors_ = std::move(taken);
  count_sums();
  state.counts.erase(first_word, state.counts.end());
}

}  // namespace distbelief::server
