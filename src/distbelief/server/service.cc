#include "distbelief/server/service.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <cstring>
#include <future>
#include <random>
#include <set>

#include "distbelief/base/error.h"

namespace distbelief::server {
namespace {

using Kind = comm::StoreRequest::Kind;

// Not to be guessed: whoever has it was told by this server.
std::uint64_t draw_id() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Service::Service(Options options) : options_(std::move(options)) {
  if (!options_.logs.empty()) std::filesystem::create_directories(options_.logs);
}

// Links tell spaces what is done: they end first.
Service::~Service() {
  if (roles_)
    for (const auto& [id, link] : roles_->links) link->release();
  if (filling_.joinable()) filling_.join();
  if (roles_)
    for (const auto& [id, link] : roles_->links) link->stop();
}

std::shared_ptr<const Roles> Service::roles() const {
  const std::lock_guard lock(mutex_);
  return roles_;
}

std::vector<std::shared_ptr<Space>> Service::spaces() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Space>> all;
  for (const auto& [id, space] : spaces_) all.push_back(space);
  return all;
}

void Service::set_map(const ServerMap& map) {
  const std::lock_guard changing(changing_);
  const std::shared_ptr<const Roles> before = roles();
  if (before && before->map.epoch >= map.epoch) return;
  auto next = std::make_shared<Roles>(Roles{.id = options_.id, .map = map});
  std::set<int> wanted;
  for (const ServerMap::Part& part : map.parts)
    if (part.primary == options_.id)
      for (const int other : {part.backup, part.filling})
        if (other != kNobody) wanted.insert(other);
  for (const int other : wanted)
    if (before && before->links.contains(other))
      next->links[other] = before->links.at(other);
    else
      next->links[other] = std::make_shared<BackupLink>(comm::ControlAddress{.target = map.target_of(other)},
                                                        fmt::format("server {}", options_.id));
  {
    const std::lock_guard lock(mutex_);
    roles_ = next;
  }
  for (const auto& space : spaces()) space->set_roles(next);
  // Only now: whoever is let go on must find the new roles.
  if (before)
    for (const auto& [id, link] : before->links)
      if (!next->links.contains(id)) link->release();
  if (filling_.joinable()) filling_.join();
  filling_ = std::jthread([this, next] { fill_newcomers(next); });
}

void Service::fill_newcomers(std::shared_ptr<const Roles> roles) {
  pthread_setname_np(pthread_self(), "db-fill");
  std::set<int> newcomers;
  for (const ServerMap::Part& part : roles->map.parts)
    if (part.primary == options_.id && part.filling != kNobody) newcomers.insert(part.filling);
  for (const int newcomer : newcomers) {
    BackupLink& link = *roles->links.at(newcomer);
    const auto wait_for = [&](BackupLink::Item item) {
      std::promise<void> done;
      item.done = [&done] { done.set_value(); };
      link.hand_over(std::move(item));
      done.get_future().wait();
    };
    for (const auto& space : spaces()) {
      const std::string spec = comm::encode(space->spec());
      wait_for({.header = comm::encode(comm::StoreRequest{.kind = Kind::kOpen}),
                .payload = std::as_bytes(std::span(spec))});
      space->fill(newcomer);
    }
    wait_for({});
  }
  if (!newcomers.empty() && options_.on_filled) options_.on_filled(roles->map.epoch);
}

void Service::handle(comm::ExchangeServer::Request request) {
  try {
    dispatch(request);
  } catch (const Error& error) {
    // What another server has now is asked there: no offence.
    if (error.code() != ErrorCode::kAborted) {
      ++refused_;
      spdlog::warn("refused {}: {}", request.peer().name, error.message());
    }
    request.refuse(error.code(), error.message());
  } catch (const std::exception& error) {
    ++refused_;
    spdlog::error("{}: {}", request.peer().name, error.what());
    request.refuse(ErrorCode::kInternal, error.what());
  }
}

void Service::dispatch(comm::ExchangeServer::Request& request) {
  const comm::StoreRequest message = comm::decode_request(request.header());
  const std::shared_ptr<const Roles> now = roles();
  if (!now) throw Error(ErrorCode::kAborted, "this server has not been told yet what it has");
  if (message.kind == Kind::kMap) {
    const std::string text = to_text(now->map);
    std::memcpy(request.reserve(text.size()).data(), text.data(), text.size());
    return request.answer(comm::encode(comm::StoreAnswer{.epoch = now->map.epoch}));
  }
  if (message.kind == Kind::kOpen) return open(request);
  find(message, request.peer())->handle(message, request);
}

void Service::gone(std::uint64_t connection) {
  for (const auto& space : spaces()) space->gone(connection);
}

// Servers, which cannot know each other's numbers, name the job.
std::shared_ptr<Space> Service::find(const comm::StoreRequest& message, const comm::Peer& peer) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t id = message.space;
  if (peer.role == "server" && by_job_.contains(message.job)) id = by_job_.at(message.job);
  const auto found = spaces_.find(id);
  if (found == spaces_.end())
    throw Error(ErrorCode::kBadInput, "no job has this space here; open the job first");
  return found->second;
}

void Service::open(comm::ExchangeServer::Request& request) {
  const std::span<const std::byte> payload = request.payload();
  const comm::SpaceSpec spec =
      comm::decode_space({reinterpret_cast<const char*>(payload.data()), payload.size()});
  require_sound(spec);
  std::uint64_t id = 0;
  const std::shared_ptr<Space> space = admit(spec, id);
  using Outcome = comm::StoreAnswer::Outcome;
  request.answer(
      comm::encode(comm::StoreAnswer{.outcome = space->is_filled() ? Outcome::kDone : Outcome::kWanted,
                                     .space = id,
                                     .version = space->meeting_step()}));
}

std::shared_ptr<Space> Service::admit(const comm::SpaceSpec& spec, std::uint64_t& id) {
  const std::lock_guard changing(changing_);
  const std::lock_guard lock(mutex_);
  if (const auto found = by_job_.find(spec.job); found != by_job_.end()) {
    id = found->second;
    if (spaces_.at(id)->spec() != spec)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("job {} is here already, with other parameters or settings; give this one "
                              "another name",
                              spec.job));
    return spaces_.at(id);
  }
  const std::size_t wanted = bytes_for(spec, *roles_);
  std::size_t taken = 0;
  for (const auto& [other, space] : spaces_) taken += bytes_for(space->spec(), *roles_);
  if (int(spaces_.size()) >= options_.jobs_limit || wanted > options_.job_limit ||
      taken > options_.memory_limit || wanted > options_.memory_limit - taken)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("job {} wants {} bytes on this server, which has {} jobs with {} bytes and takes "
                            "{} jobs, {} bytes each, {} in all",
                            spec.job, wanted, spaces_.size(), taken, options_.jobs_limit, options_.job_limit,
                            options_.memory_limit));
  while (id == 0 || spaces_.contains(id)) id = draw_id();
  const std::filesystem::path log =
      options_.logs.empty() ? std::filesystem::path()
                            : options_.logs / fmt::format("{}-server{}.jsonl", by_job_.size(), options_.id);
  auto space = std::make_shared<Space>(
      Space::Options{.spec = spec, .log = log, .table_bytes = options_.job_limit}, roles_);
  spaces_[id] = space;
  by_job_[spec.job] = id;
  spdlog::info("job {}: {} elements, {} bytes here", spec.job, spec.elements, wanted);
  return space;
}

}  // namespace distbelief::server
