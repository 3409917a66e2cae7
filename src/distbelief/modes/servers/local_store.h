#pragma once

#include <vector>

#include "distbelief/compute/vector_slice.h"
#include "distbelief/modes/servers/batch_store.h"

namespace distbelief::modes {

// The vectors are in this process, in slices as large as those of parameter servers: the same bits come out.
// Portions come one after another.
class LocalStore final : public BatchStore {
 public:
  void open(const Opening& opening) override;
  Work next(const std::function<void(std::int64_t)>& announce) override;
  void fetch(std::span<float> point) override;
  void add(const Portion& portion) override;
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations) override;
  Coordinator coordinator() override { return coordinator_; }
  void advance(const Coordinator& coordinator) override;

 private:
  std::vector<float> point_;
  std::vector<compute::VectorSlice> slices_;
  std::int64_t portions_ = 0;
  std::int64_t next_ = 0;  // portion
  Coordinator coordinator_;
};

}  // namespace distbelief::modes
