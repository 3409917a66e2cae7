#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <random>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/service/service.h"

// The jobs of a server: how they begin and end.
namespace distbelief::server {
namespace {

constexpr std::size_t kClosedJobs = 1024;
constexpr int kLooksInALease = 8;

// Cannot be guessed: a client that has it was told by this server.
std::uint64_t draw_id() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// Sub-networks of one run have separate logs.
std::string log_name(std::int64_t job, int server, std::int32_t sub_network) {
  if (sub_network == 0) return fmt::format("{}-server{}.jsonl", job, server);
  return fmt::format("{}-server{}-sub{}.jsonl", job, server, sub_network - 1);
}

}  // namespace

// Servers that have not heard of it yet may still send updates.
bool Service::is_over(const std::string& job) const {
  const std::lock_guard lock(mutex_);
  return !by_job_.contains(job) && is_closed(job);
}

// The caller holds the lock.
bool Service::is_closed(const std::string& job) const {
  return std::ranges::find(closed_, job) != closed_.end();
}

void Service::open(const comm::StoreRequest& asked, comm::ExchangeServer::Request& request) {
  const std::span<const std::byte> payload = request.payload();
  const comm::SpaceSpec spec =
      comm::decode_space({reinterpret_cast<const char*>(payload.data()), payload.size()});
  require_sound(spec);
  std::uint64_t id = 0;
  const bool is_of_server = request.peer().role == "server";
  if (is_of_server && is_another(spec)) {
    spdlog::warn("job {} is another one on {}: it is over here", spec.job, request.peer().name);
    end_job(spec.job);
  }
  const std::shared_ptr<Space> space = admit(spec, id, is_of_server);
  if (!space && is_of_server) return request.answer(comm::encode(comm::StoreAnswer{}));
  if (!space) throw Error(ErrorCode::kBadInput, fmt::format("job {} is over", spec.job));
  if (!is_of_server || asked.granted) grant(*space, is_of_server);
  space->renew_lease();
  if (!is_of_server) space->meet_speaker(request.peer().connection, asked.replica);
  request.limit_shared(shared_bytes_for(spec));
  using Outcome = comm::StoreAnswer::Outcome;
  request.answer(
      comm::encode(comm::StoreAnswer{.outcome = space->is_filled() ? Outcome::kDone : Outcome::kWanted,
                                     .space = id,
                                     .version = space->meeting_step()}));
}

// A client that knows the name has submitted the job or was told by its submitter: names cannot be guessed.
void Service::close(const comm::StoreRequest& message, comm::ExchangeServer::Request& request) {
  if (message.job.empty() || message.job.size() > kMostNameBytes)
    throw Error(ErrorCode::kBadInput, fmt::format("the name of a job has 1 to {} bytes, not {}",
                                                  kMostNameBytes, message.job.size()));
  end_job(message.job);
  request.answer(comm::encode(comm::StoreAnswer{}));
}

// Also records a job that is not here: a server that has not heard of the end may still open it here.
void Service::end_job(const std::string& job) {
  std::shared_ptr<Space> over;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  over = extract(job);
  if (over) spdlog::info("job {} is over", job);
  if (!is_closed(job)) closed_.push_back(job);
  if (closed_.size() > kClosedJobs) closed_.pop_front();
}

// A client that submits different specs of one job to two servers loses that job; other jobs stay.
bool Service::is_another(const comm::SpaceSpec& spec) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_job_.find(spec.job);
  return found != by_job_.end() && spaces_.at(found->second)->spec() != spec;
}

// The caller holds the lock and destroys the result without it: that may take a while.
std::shared_ptr<Space> Service::extract(const std::string& job) {
  const auto found = by_job_.find(job);
  if (found == by_job_.end()) return nullptr;
  std::shared_ptr<Space> space = spaces_.extract(found->second).mapped();
  by_job_.erase(found);
  space->close();
  return space;
}

void Service::watch(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "db-lease");
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, stop, options_.lease / kLooksInALease, [&] { return stop.stop_requested(); }))
    look_at_jobs();
}

// Replicas may speak only to a job's primaries, which tell the other servers that the job lives. A job whose
// lease runs out here is not over for good: parts of a living job may still come to this server.
void Service::look_at_jobs() {
  std::vector<std::shared_ptr<Space>> over;
  const std::lock_guard lock(mutex_);
  std::vector<std::string> silent;
  for (const auto& [id, space] : spaces_) {
    if (space->has_speakers()) {
      space->renew_lease();
      announce(*space);
    } else if (space->silence() > options_.lease) {
      silent.push_back(space->spec().job);
    }
  }
  for (const std::string& job : silent) {
    spdlog::warn("job {}: no replica has been here for {} s; its space is free", job,
                 std::chrono::duration<double>(options_.lease).count());
    over.push_back(extract(job));
  }
}

// The caller holds the lock. Null: the job is not here.
std::shared_ptr<Space> Service::known(const comm::SpaceSpec& spec, std::uint64_t& id) const {
  const auto found = by_job_.find(spec.job);
  if (found == by_job_.end()) return nullptr;
  id = found->second;
  if (spaces_.at(id)->spec() != spec)
    throw Error(ErrorCode::kBadInput,
                fmt::format("job {} is here already, with other parameters or settings; give this one "
                            "another name",
                            spec.job));
  return spaces_.at(id);
}

void Service::refuse_job(const comm::SpaceSpec& spec, std::size_t jobs, std::size_t bytes) const {
  throw Error(ErrorCode::kBadInput,
              fmt::format("job {} wants {} bytes on this server, which has {} jobs with {} bytes and takes "
                          "{} jobs, {} bytes each, {} in all",
                          spec.job, bytes_for(spec, *roles_), jobs, bytes, options_.jobs_limit,
                          options_.job_limit, options_.memory_limit));
}

// The caller holds the lock. Returns the job's budget with its initial bytes. A job that another server
// announces is not refused: that server's link would take this one for broken.
std::shared_ptr<Budget> Service::room_for(const comm::SpaceSpec& spec, bool is_told) const {
  const std::size_t wanted = bytes_for(spec, *roles_);
  auto budget = std::make_shared<Budget>(options_.job_limit, memory_);
  const std::size_t taken = memory_->taken();
  if (is_told)
    budget->add(wanted);
  else if (int(spaces_.size()) >= options_.jobs_limit || !budget->take(wanted))
    refuse_job(spec, spaces_.size(), taken);
  return budget;
}

// A job announced by another server was not checked against the limits here. Its first replica is checked,
// before the job has any values here. A running job that the map has brought here is not.
void Service::grant(Space& space, bool is_under_way) {
  const std::lock_guard lock(mutex_);
  if (space.is_granted()) return;
  const std::size_t others = spaces_.size() - 1;
  const std::size_t own = space.bytes(), all = memory_->taken();
  const bool has_room =
      int(others) < options_.jobs_limit && own <= options_.job_limit && all <= options_.memory_limit;
  if (!is_under_way && !has_room) refuse_job(space.spec(), others, all - std::min(all, own));
  space.grant();
}

// Null: the job is over. Requests of other jobs continue while a job state is built.
std::shared_ptr<Space> Service::admit(const comm::SpaceSpec& spec, std::uint64_t& id, bool is_told) {
  const std::lock_guard changing(changing_);
  std::shared_ptr<Budget> budget;
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<Space> space = known(spec, id)) return space;
    if (is_closed(spec.job)) return nullptr;
    budget = room_for(spec, is_told);
  }
  const std::shared_ptr<const Roles> now = roles();
  const std::filesystem::path log = options_.logs.empty()
                                        ? std::filesystem::path()
                                        : options_.logs / log_name(jobs_seen_, options_.id, spec.sub_network);
  if (!log.empty()) UpdateLog(log).append_job(job_mark(spec.job));
  auto space = std::make_shared<Space>(Space::Options{.spec = spec, .log = log, .budget = budget}, now);
  const std::lock_guard lock(mutex_);
  if (is_closed(spec.job)) return nullptr;  // closed meanwhile
  while (id == 0 || spaces_.contains(id)) id = draw_id();
  spaces_[id] = space;
  by_job_[spec.job] = id;
  ++jobs_seen_;
  if (!is_told) space->grant();
  announce(*space);
  spdlog::info("job {}: {} elements, {} bytes here", spec.job, spec.elements, budget->taken());
  return space;
}

}  // namespace distbelief::server
