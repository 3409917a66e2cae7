#include "distbelief/server/service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <random>

#include "distbelief/base/error.h"

namespace distbelief::server {
namespace {

// Not to be guessed: whoever has it was told by this server.
std::uint64_t draw_id() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Service::Service(Options options) : options_(std::move(options)) {
  if (!options_.logs.empty()) std::filesystem::create_directories(options_.logs);
}

Service::~Service() = default;

void Service::handle(comm::ExchangeServer::Request request) {
  try {
    const comm::StoreRequest message = comm::decode_request(request.header());
    if (message.kind == comm::StoreRequest::Kind::kOpen) return open(request);
    find(message.space)->handle(message, request);
  } catch (const Error& error) {
    ++refused_;
    spdlog::warn("refused {}: {}", request.peer().name, error.message());
    request.refuse(error.code(), error.message());
  } catch (const std::exception& error) {
    ++refused_;
    spdlog::error("{}: {}", request.peer().name, error.what());
    request.refuse(ErrorCode::kInternal, error.what());
  }
}

void Service::gone(std::uint64_t connection) {
  std::vector<std::shared_ptr<Space>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, space] : spaces_) all.push_back(space);
  }
  for (const auto& space : all) space->gone(connection);
}

std::shared_ptr<Space> Service::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = spaces_.find(id);
  if (found == spaces_.end())
    throw Error(ErrorCode::kBadInput, "no job has this space here; open the job first");
  return found->second;
}

std::size_t Service::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void Service::open(comm::ExchangeServer::Request& request) {
  const std::span<const std::byte> payload = request.payload();
  const comm::SpaceSpec spec =
      comm::decode_space({reinterpret_cast<const char*>(payload.data()), payload.size()});
  require_sound(spec);
  std::uint64_t id = 0;
  const std::shared_ptr<Space> space = admit(spec, id);
  using Outcome = comm::StoreAnswer::Outcome;
  request.answer(comm::encode({.outcome = space->is_filled() ? Outcome::kDone : Outcome::kWanted,
                               .space = id,
                               .version = space->meeting_step()}));
}

std::shared_ptr<Space> Service::admit(const comm::SpaceSpec& spec, std::uint64_t& id) {
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
  const KeyRange range =
      spread_slices(std::int64_t(spec.slices()), options_.servers)[std::size_t(options_.index)];
  const std::size_t wanted = bytes_of(spec, range);
  if (int(spaces_.size()) >= options_.jobs_limit || wanted > options_.job_limit ||
      wanted > options_.memory_limit - bytes_)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("job {} wants {} bytes on server {}, which has {} jobs with {} bytes and takes "
                            "{} jobs, {} bytes each, {} in all",
                            spec.job, wanted, options_.index, spaces_.size(), bytes_, options_.jobs_limit,
                            options_.job_limit, options_.memory_limit));
  while (id == 0 || spaces_.contains(id)) id = draw_id();
  const std::filesystem::path log =
      options_.logs.empty()
          ? std::filesystem::path()
          : options_.logs / fmt::format("{}-server{}.jsonl", by_job_.size(), options_.index);
  auto space = std::make_shared<Space>(
      Space::Options{.id = id, .spec = spec, .range = range, .has_desk = options_.index == 0, .log = log});
  spaces_[id] = space;
  by_job_[spec.job] = id;
  bytes_ += wanted;
  spdlog::info("job {}: {} parameters, slices {} to {}", spec.job, spec.elements, range.begin, range.end - 1);
  return space;
}

}  // namespace distbelief::server
