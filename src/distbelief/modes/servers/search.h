#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "distbelief/modes/mode.h"
#include "distbelief/modes/servers/batch_store.h"
#include "distbelief/replica/replica_view.h"

namespace distbelief::modes {

struct SearchOptions {
  std::unique_ptr<BatchStore> store{};  // of the first worker; null for others
  bool leads = true;
  bool is_in_order = true;          // portions come one after another
  std::int64_t first_step = 0;      // that a resumed run goes on with; servers begin anew there
  std::function<bool()> goes_on{};  // of server::Client; may be empty
};

// Minimises the loss of the whole batch by L-BFGS: each step is a portion of an evaluation, an epoch is an
// evaluation, and in between the coordinator says where the next one is. It runs in whichever replica gets
// its ticket. The vectors are on parameter servers, or without any in the first worker.
class Search final : public Mode {
 public:
  static ModeParts parts(SearchOptions options);
  Search(replica::Replica& replica, std::shared_ptr<SearchOptions> options);
  ~Search() override;

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override;
  void refresh() override {}            // the record is the replica's own
  void save(const Saving&) override {}  // a resumed search begins again from the point it has reached
  Finished finish() override;

 private:
  BatchStore* store() const { return options_->store.get(); }
  void open_store();
  void coordinate(std::int64_t evaluation);
  std::int64_t find_step();
  std::int64_t shared(std::int64_t number);
  void announce_ahead();

  replica::Replica& replica_;
  std::shared_ptr<SearchOptions> options_;
  compute::LbfgsOptions method_;
  std::optional<replica::ReplicaView> view_;
  std::int64_t portions_ = 1;
  std::int64_t first_ = 0;      // evaluation of the run that this store's first one is
  std::int64_t samples_ = 0;    // of the batch
  std::int64_t fetched_ = -1;   // the evaluation whose point the parameters are
  std::int64_t announced_ = 0;  // portions, in order
  std::int64_t taken_ = 0;      // of these
  std::vector<float> zeros_;
  bool continues_ = false;  // its last step left states of lanes to go on from
};

}  // namespace distbelief::modes
