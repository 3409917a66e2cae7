#include "distbelief/server/service/service.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <set>

#include "distbelief/base/error.h"

namespace distbelief::server {
namespace {

using Kind = comm::StoreRequest::Kind;

// Limited because requests are handed on to backups with the job's name and a few more numbers.
constexpr std::size_t kMostAskedBytes = 15 << 10;  // from a replica

}  // namespace

Service::Service(Options options)
    : options_(std::move(options)),
      memory_(std::make_shared<Budget>(options_.memory_limit)),
      refusals_(options_.refusals) {
  if (!options_.logs.empty()) std::filesystem::create_directories(options_.logs);
  if (options_.lease.count() > 0) watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

// Links call back into the job states, so the links end first.
Service::~Service() {
  watch_.request_stop();
  if (watch_.joinable()) watch_.join();
  for (const auto& link : links_) link->release();
  if (filling_.joinable()) filling_.join();
  for (const auto& link : links_) link->stop();
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

std::shared_ptr<BackupLink> Service::link_to(int id, const std::string& target) {
  comm::ControlAddress address = options_.identity;
  address.target = target;
  return std::make_shared<BackupLink>(std::move(address), name_of_server(options_.id),
                                      [this, id] { tell_apart(id); });
}

void Service::tell_apart(int id) {
  if (options_.on_apart) options_.on_apart(id, roles()->map.epoch);
}

// A link's own callback may hold the last reference to it, and a thread cannot join itself: links without
// another owner end here.
void Service::keep_links(const Roles& roles) {
  std::erase_if(links_, [](const auto& link) { return link->has_ended() && link.use_count() == 1; });
  for (const auto& [id, link] : roles.links)
    if (std::ranges::find(links_, link) == links_.end()) links_.push_back(link);
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
      next->links[other] = link_to(other, map.target_of(other, options_.host));
  keep_links(*next);
  {
    const std::lock_guard lock(mutex_);
    roles_ = next;
  }
  for (const auto& space : spaces()) space->set_roles(next);
  // Only now: a released request must find the new roles.
  if (before)
    for (const auto& [id, link] : before->links)
      if (!next->links.contains(id)) link->release();
  for (const auto& [id, link] : next->links)
    if (link->is_broken()) tell_apart(id);  // a report under an older map may have been ignored
  // A fill by the map before may wait for a link that only the next map releases: the new thread waits for
  // it, so that this call need not.
  filling_ = std::jthread([this, next, before = std::move(filling_)]() mutable {
    if (before.joinable()) before.join();
    settle(next);
  });
}

namespace {

// Waits until the link has delivered everything handed over before.
void wait_for(BackupLink& link, BackupLink::Item item) {
  std::promise<void> done;
  item.done = [&done] { done.set_value(); };
  link.hand_over(std::move(item));
  done.get_future().wait();
}

BackupLink::Item opening(Space& space) {
  const auto text = std::make_shared<std::string>(comm::encode(space.spec()));
  return {.header = comm::encode(
              comm::StoreRequest{.kind = Kind::kOpen, .granted = space.is_granted() && space.is_filled()}),
          .payload = std::as_bytes(std::span(*text)),
          .owner = text};
}

}  // namespace

void Service::fill(BackupLink& link, int newcomer) {
  for (const auto& space : spaces()) {
    wait_for(link, opening(*space));
    space->fill(newcomer);
  }
}

// Does the work that the map asks of this server. The job states follow the map already, so nothing is queued
// after the items waited for here. A newer map's work is done by its own thread.
void Service::settle(const std::shared_ptr<const Roles>& roles) {
  pthread_setname_np(pthread_self(), "db-fill");
  if (this->roles() != roles) return;
  std::set<int> newcomers, heirs;
  for (const ServerMap::Part& part : roles->map.parts) {
    if (part.primary != options_.id) continue;
    if (part.filling != kNobody) newcomers.insert(part.filling);
    if (part.is_handed_over) heirs.insert(part.backup);
  }
  for (const int newcomer : newcomers) fill(*roles->links.at(newcomer), newcomer);
  heirs.insert(newcomers.begin(), newcomers.end());
  for (const int heir : heirs) wait_for(*roles->links.at(heir), {});
  if (this->roles() != roles) return;  // waiting requests were released
  if (!heirs.empty() && options_.on_settled) options_.on_settled(roles->map.epoch);
}

// Opens the job at the backups, which need its state for the items to come; replicas may not know them yet.
void Service::announce(Space& space) const {
  for (const auto& [id, link] : roles_->links) link->hand_over(opening(space));
}

void Service::handle(comm::ExchangeServer::Request request) {
  try {
    dispatch(request);
  } catch (const Error& error) {
    refuse(std::move(request), error.code(), error.message());
  } catch (const std::exception& error) {
    refuse(std::move(request), ErrorCode::kInternal, error.what());
  }
}

// A request for another server, or for values that are not there yet, is repeated by honest clients: no
// offence. The log shows only some of a connection's many refusals.
void Service::refuse(comm::ExchangeServer::Request request, ErrorCode code, const std::string& why) {
  const bool is_offence = code != ErrorCode::kAborted && code != ErrorCode::kUnavailable;
  if (is_offence) ++refused_;
  if (!request.is_open()) return spdlog::error("a request that was kept: {}", why);
  if (!is_offence) return request.refuse(code, why);
  const comm::Peer peer = request.peer();
  const std::int64_t count = refusals_.add(std::move(request), code, why);
  if (std::has_single_bit(std::uint64_t(count)))
    spdlog::warn("refused {} {} (connection {}), {} times so far: {}", peer.role, peer.name, peer.connection,
                 count, why);
}

void Service::dispatch(comm::ExchangeServer::Request& request) {
  const bool is_of_server = request.peer().role == "server";
  if (!is_of_server && request.header().size() > kMostAskedBytes)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a request of {} bytes; at most {}", request.header().size(), kMostAskedBytes));
  const comm::StoreRequest message = comm::decode_request(request.header());
  const std::shared_ptr<const Roles> now = roles();
  if (!now) throw Error(ErrorCode::kUnavailable, "this server has not been told yet what it has");
  request.own_payload();  // after the checks below it must not change
  if (message.kind == Kind::kMap) {
    const std::string text = to_text(now->map);
    std::memcpy(request.reserve(text.size()).data(), text.data(), text.size());
    return request.answer(comm::encode(comm::StoreAnswer{.epoch = now->map.epoch}));
  }
  if (message.kind == Kind::kOpen) return open(message, request);
  if (message.kind == Kind::kClose) return close(message, request);
  if (is_of_server && is_over(message.job)) return request.answer(comm::encode(comm::StoreAnswer{}));
  find(message, request.peer())->handle(message, request);
}

void Service::gone(std::uint64_t connection) {
  refusals_.forget(connection);
  for (const auto& space : spaces()) space->gone(connection);
}

// Servers do not know each other's numbers, so they name the job.
std::shared_ptr<Space> Service::find(const comm::StoreRequest& message, const comm::Peer& peer) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t id = message.space;
  if (peer.role == "server" && by_job_.contains(message.job)) id = by_job_.at(message.job);
  const auto found = spaces_.find(id);
  if (found == spaces_.end())
    throw Error(peer.role == "server" ? ErrorCode::kUnavailable : ErrorCode::kBadInput,
                "no job has this space here; open the job first");
  return found->second;
}

}  // namespace distbelief::server
