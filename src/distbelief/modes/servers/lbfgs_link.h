#pragma once

#include <memory>

#include "distbelief/base/config.h"
#include "distbelief/comm/world.h"
#include "distbelief/mesh/parameter_link.h"
#include "distbelief/modes/servers/batch_store.h"

namespace distbelief::modes {

// How a run minimises the loss of its whole batch by L-BFGS: each step of the trainer is a portion of an
// evaluation, an epoch is an evaluation, and in between the coordinator says where the next one is. It runs
// in whichever replica gets its ticket. Used by the training thread of every worker.
class LbfgsLink final : public mesh::ParameterLink {
 public:
  struct Options {
    Config config{};  // of the job, resolved
    World* world = nullptr;
    std::unique_ptr<BatchStore> store{};  // of the first worker; null for others
    bool leads = true;
    bool is_in_order = true;          // portions come one after another
    std::function<bool()> goes_on{};  // of server::Client; may be empty
  };
  explicit LbfgsLink(Options options);
  ~LbfgsLink() override;

  bool is_synchronous() const override { return false; }
  TreeNode lanes() const override { return {0, options_.config.parallel.lanes}; }
  bool leads() const override { return options_.leads; }
  bool is_searching() const override { return true; }
  std::int64_t join(const Start& start) override;
  std::optional<std::int64_t> next(const std::function<void(std::int64_t)>& announce) override;
  void exchange(const Share& share, std::span<const float> gradient, std::span<float> parameters) override;
  std::optional<std::int64_t> rest() override {
    return options_.store ? options_.store->rest() : std::nullopt;
  }
  void wake() override { options_.store->wake(); }
  bool is_cut_short() const override { return cut_short_; }
  Finished finish(std::span<float> parameters) override;

 private:
  void coordinate(std::int64_t evaluation);
  std::int64_t find_step(const std::function<void(std::int64_t)>& announce);
  std::int64_t shared(std::int64_t number);

  Options options_;
  compute::LbfgsOptions method_;
  std::int64_t portions_ = 1;
  std::int64_t first_ = 0;    // evaluation of the run that this store's first one is
  std::int64_t samples_ = 0;  // of the batch
  std::span<float> parameters_;
  std::int64_t fetched_ = -1;   // the evaluation whose point the parameters are
  std::int64_t announced_ = 0;  // portions, in order
  std::int64_t taken_ = 0;      // of these
  std::vector<float> zeros_;
  bool cut_short_ = false;
};

}  // namespace distbelief::modes
