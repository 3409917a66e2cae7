#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string>

#include "distbelief/base/config.h"
#include "distbelief/modes/servers/batch_store.h"
#include "distbelief/server/client/client_handle.h"
#include "distbelief/server/shard/update_log.h"

namespace distbelief::modes {

// The vectors are on parameter servers, and portions are dealt out to replicas there.
class ServedStore final : public BatchStore {
 public:
  struct Options {
    ParallelConfig parallel{};
    std::vector<comm::ControlAddress> servers{};
    std::string job = "job";  // by which the servers know the run
    int replica = 0;
    std::int64_t incarnation = 1;
    std::filesystem::path log{};      // of portions that were answered; empty: none
    std::function<bool()> goes_on{};  // of server::Client, as is the next
    std::function<std::vector<comm::ControlAddress>()> find_servers{};
  };
  explicit ServedStore(Options options);

  void open(const Opening& opening) override;
  Work next(const std::function<void(std::int64_t)>& announce) override;
  void fetch(std::span<float> point) override { client_->pull(point); }
  void add(const Portion& portion) override;
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations) override {
    return client_->run(sequence, operations);
  }
  Coordinator coordinator() override;
  void advance(const Coordinator& coordinator) override;
  std::optional<std::int64_t> rest() override;
  void wake() override;

 private:
  // A gradient on its way to the servers while the next portion is computed.
  struct Sending {
    std::int64_t ticket = -1;
    std::int64_t portion = -1;  // counted over all evaluations
    std::vector<float> gradient{};
    std::optional<server::Client::Handle> handle{};  // last: goes before what it sends
  };

  void ask();
  void settle();
  void note(std::optional<std::int64_t> ticket, const std::function<void(std::int64_t)>& announce);

  Options options_;
  std::unique_ptr<server::UpdateLog> log_;
  std::unique_ptr<server::Client> client_;
  Sending sending_;
  std::int64_t portions_ = 1;
  std::deque<server::Client::Asked> asked_;  // tickets on their way
  std::deque<std::int64_t> ahead_;           // tickets that are here
  std::vector<std::int64_t> done_;           // that the desk has not been told of
  std::int64_t at_ = -1;                     // the ticket that is worked on; -1: none
  bool ended_ = false;
  Coordinator known_{};  // what this one has come to
};

}  // namespace distbelief::modes
