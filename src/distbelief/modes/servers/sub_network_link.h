#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "distbelief/modes/servers/server_link.h"
#include "distbelief/modes/servers/sub_network_task.h"
#include "distbelief/run/decomposition.h"

namespace distbelief::modes {

// The link of a replica that trains one sub-network of a decomposed model (S3.10). Each sub-network is a job
// of its own to the servers, asynchronous, with tickets of the same numbers: a ticket of one is dealt when
// the output of the one before has come, which is dropped when the ticket is done. The leader, a replica of
// the first sub-network, brings the first values of all, waits for the end of all and can fetch the whole
// model. Used by the training thread.
class SubNetworkLink final : public mesh::ParameterLink {
 public:
  struct Options {
    ServerLink::Options server{};
    std::vector<run::SubNetworkPlace> places{};  // of all sub-networks
    int index = 0;                               // of this replica's
    SubNetworkTraffic* traffic = nullptr;
    std::function<bool()> goes_on{};  // false: waits that have no end are broken off
  };
  explicit SubNetworkLink(Options options);

  bool is_synchronous() const override { return false; }
  TreeNode lanes() const override { return own_.lanes(); }
  bool leads() const override { return own_.leads(); }
  std::int64_t join(const Start& start) override;
  std::int64_t agree(std::int64_t version) override { return own_.agree(version); }
  std::optional<std::int64_t> next(const std::function<void(std::int64_t)>& announce) override;
  void exchange(const Share& share, std::span<const float> gradient, std::span<float> parameters) override;
  std::size_t slices(std::size_t elements) const override { return own_.slices(elements); }
  void read_answers(std::span<std::int64_t> versions) const override { own_.read_answers(versions); }
  void acknowledge(std::span<const std::int64_t> versions) override;
  void fetch_whole() override;
  bool is_cut_short() const override { return cut_short_; }
  Finished finish(std::span<float> parameters) override { return own_.finish(parameters); }

 private:
  const run::SubNetworkPlace& place(int index) const { return options_.places[std::size_t(index)]; }
  bool takes_inputs() const { return place(options_.index).input_bytes > 0; }
  ServerLink::SubNetwork number(int index) const;
  std::span<float> statistics_of(int index) const {
    return whole_statistics_.subspan(place(index).first_statistic, place(index).statistics);
  }
  ServerLink::Options own_options();
  std::unique_ptr<server::Client> connect(const Start& start, int index);
  server::Client& present(server::Client& client);
  std::optional<std::int64_t> find_step(const std::function<void(std::int64_t)>& announce);
  void fetch_input(std::int64_t step, const std::function<void(std::int64_t)>& announce);
  void hand_on(std::int64_t ticket);

  Options options_;
  ServerLink own_;
  std::map<int, std::unique_ptr<server::Client>>
      others_;                                 // by sub-network: the next one; of the leader all, its own too
  std::span<float> whole_, whole_statistics_;  // the leader's
  std::span<const float> statistics_;          // of the step that is being exchanged
  // Of a step to come.
  struct Known {
    std::vector<std::byte> input{};
    bool is_done_elsewhere = false;
  };
  std::deque<Known> known_;
  bool cut_short_ = false;
};

}  // namespace distbelief::modes
