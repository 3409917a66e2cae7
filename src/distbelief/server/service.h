#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/server/space.h"

namespace distbelief::server {

// A parameter server: keeps slices of any number of jobs, each in a space of its own, and does what replicas
// ask. Works on gRPC's threads; thread safe.
class Service final : public comm::ExchangeServer::Handler {
 public:
  struct Options {
    int index = 0;                               // of this server
    int servers = 1;                             // that share the slices
    std::filesystem::path logs{};                // folder for the logs of updates; empty: none are kept
    std::size_t memory_limit = std::size_t(-1);  // bytes, of all jobs
    std::size_t job_limit = std::size_t(-1);     // bytes, of one
    int jobs_limit = 64;
  };
  explicit Service(Options options);
  ~Service() override;

  void handle(comm::ExchangeServer::Request request) override;
  void gone(std::uint64_t connection) override;

  std::int64_t refused() const { return refused_; }  // requests, so far
  std::size_t bytes() const;                         // that jobs are given

 private:
  void open(comm::ExchangeServer::Request& request);
  std::shared_ptr<Space> admit(const comm::SpaceSpec& spec, std::uint64_t& id);
  std::shared_ptr<Space> find(std::uint64_t id) const;

  Options options_;
  std::atomic<std::int64_t> refused_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::uint64_t, std::shared_ptr<Space>> spaces_;
  std::map<std::string, std::uint64_t> by_job_;
  std::size_t bytes_ = 0;
};

}  // namespace distbelief::server
