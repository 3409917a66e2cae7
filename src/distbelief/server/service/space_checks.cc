#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/compute/lbfgs.h"
#include "distbelief/server/scheduler/portion_deals.h"
#include "distbelief/server/service/space.h"
#include "distbelief/server/service/space_requests.h"

// Checks of requests, before anything has changed.
namespace distbelief::server {

using comm::kSliceElements;
using comm::SpaceSpec;
using comm::StoreRequest;

namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;
constexpr std::int64_t kMostTickets = std::int64_t{1} << 48;
constexpr std::size_t kMostTables = 64;
constexpr std::size_t kMostInASlice = 8192;  // parameters
constexpr std::uint32_t kMostWidth = 65536;
constexpr std::uint64_t kMostInputBytes = std::uint64_t{1} << 32;
constexpr std::int64_t kMostWindow = 65536;
constexpr std::int32_t kMostSubNetworks = 65536;
constexpr std::int64_t kMostStepSamples = std::int64_t{1} << 40;
constexpr std::size_t kRepeatsAtOnce = 8;     // of a whole push
constexpr std::int64_t kMostPortions = 1024;  // their losses travel in a message's header

bool is_lbfgs(std::int64_t vectors) {
  const std::int64_t pairs = vectors - compute::kFirstPair;
  return pairs >= 2 && pairs <= 2 * compute::kMostHistory && pairs % 2 == 0;
}

void require_sound_tables(const SpaceSpec& spec) {
  const auto require = [&](bool is_good, const std::string& why) {
    if (!is_good) throw Error(ErrorCode::kBadInput, fmt::format("job {}: {}", spec.job, why));
  };
  require(spec.tables.empty() ||
              (spec.tables.size() <= kMostTables && (spec.mode == "async" || spec.mode == "bounded")),
          fmt::format("tables go with the modes async and bounded, up to {} of them", kMostTables));
  for (const comm::TableSpec& table : spec.tables)
    require(table.most_rows <= kMostElements && table.width >= 1 && table.width <= kMostWidth &&
                table.name.size() <= 64 && std::isfinite(float(table.scale)) && table.scale >= 0,
            fmt::format(
                "table {}: rows of {} numbers up to {}; wanted: 1 to {} numbers, a name of up to 64 bytes",
                table.name, table.width, table.scale, kMostWidth));
}

void require_sound_inputs(const SpaceSpec& spec) {
  const auto require = [&](bool is_good, const std::string& why) {
    if (!is_good) throw Error(ErrorCode::kBadInput, fmt::format("job {}: {}", spec.job, why));
  };
  require(spec.sub_network >= 0 && spec.sub_network <= kMostSubNetworks,
          fmt::format("sub-network {}; there can be {}", spec.sub_network, kMostSubNetworks));
  if (spec.input_bytes == 0)
    return require(spec.window == 0, fmt::format("a window of {} inputs of no bytes", spec.window));
  require(
      spec.mode == "async" && spec.sub_network > 0,
      fmt::format("tickets of sub-networks wait for inputs, in mode async, not those of mode {}", spec.mode));
  require(spec.input_bytes <= kMostInputBytes && spec.window >= 1 && spec.window <= kMostWindow,
          fmt::format("a window of {} inputs of {} bytes; wanted: 1 to {} of up to {}", spec.window,
                      spec.input_bytes, kMostWindow, kMostInputBytes));
}

// A slice goes to its backup with a count for each parameter, and the counts have to fit into a header
// (kMaxHeaderBytes). The stretches are in the order of the arena.
void require_few_in_a_slice(const SpaceSpec& spec, const std::vector<SpaceSpec::Stretch>& stretches) {
  std::uint64_t slice = 0;
  std::size_t here = 0;
  for (const SpaceSpec::Stretch& stretch : stretches) {
    if (stretch.count == 0) continue;
    const std::uint64_t first = stretch.begin / kSliceElements;
    here = first == slice ? here + 1 : 1;
    if (here > kMostInASlice)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("job {}: more than {} parameters within {} elements; servers keep a count of "
                              "updates for each: put small ones together",
                              spec.job, kMostInASlice, kSliceElements));
    const std::uint64_t last = (stretch.begin + stretch.count - 1) / kSliceElements;
    if (last != first) here = 1;
    slice = last;
  }
}

}  // namespace

void require_sound(const SpaceSpec& spec) {
  const auto require = [&](bool is_good, const std::string& why) {
    if (!is_good) throw Error(ErrorCode::kBadInput, fmt::format("job {}: {}", spec.job, why));
  };
  require(!spec.job.empty() && spec.job.size() <= kMostNameBytes,
          fmt::format("its name has 1 to {} bytes", kMostNameBytes));
  require(spec.elements > 0 && spec.elements <= kMostElements,
          fmt::format("{} parameters; 1 to {} can be kept", spec.elements, kMostElements));
  const bool has_vectors = spec.mode == "sandblaster";
  require(has_vectors || spec.mode == "sync" || spec.mode == "async" || spec.mode == "bounded",
          fmt::format("servers know the modes sync, async, bounded and sandblaster, not '{}'", spec.mode));
  if (has_vectors)
    require(
        spec.portions >= 1 && spec.portions <= kMostPortions && is_lbfgs(spec.vectors),
        fmt::format("servers take 1 to {} portions, and vectors for a history of 1 to {}, found {} and {}",
                    kMostPortions, compute::kMostHistory, spec.portions, spec.vectors));
  else
    require(spec.portions == 0 && spec.vectors == 0,
            fmt::format("portions and vectors are for the mode sandblaster, not {}", spec.mode));
  require(spec.lanes >= 1 && spec.spare_lanes >= 0 && spec.spare_lanes < spec.lanes,
          fmt::format("{} spare lanes of {}", spec.spare_lanes, spec.lanes));
  require(spec.lanes <= (1 << 20) && spec.lane_values <= kSliceElements,
          fmt::format("{} lanes with {} values each are too many", spec.lanes, spec.lane_values));
  require(spec.tickets >= 0 && spec.tickets <= kMostTickets && spec.staleness >= 0,
          fmt::format("{} tickets and a bound of {}; wanted: up to {}, and none below 0", spec.tickets,
                      spec.staleness, kMostTickets));
  const auto rule = compute::make_optimizer(spec.optimizer);
  require(spec.optimizer.name != "lbfgs", "lbfgs is no rule of servers; the mode sandblaster has commands");
  require(dynamic_cast<compute::LayerwiseOptimizer*>(rule.get()) == nullptr,
          fmt::format("the rule {} needs norms of whole parameters, which no server has; servers apply sgd, "
                      "adagrad, adam and adamw",
                      spec.optimizer.name));
  require_sound_tables(spec);
  require_sound_inputs(spec);
  std::vector<SpaceSpec::Stretch> stretches = spec.parameters;
  std::ranges::sort(stretches, {}, &SpaceSpec::Stretch::begin);
  std::uint64_t end = 0;
  for (const SpaceSpec::Stretch& stretch : stretches) {
    require(stretch.begin >= end && stretch.begin <= spec.elements &&
                stretch.count <= spec.elements - stretch.begin,
            "a parameter lies outside the arena or on another");
    end = stretch.begin + stretch.count;
  }
  require_few_in_a_slice(spec, stretches);
}

// A connection speaks for one replica, so the servers' state for replicas is bounded by the number of
// connections. The parameters and tickets in a request must be the job's.
void Space::require_own_name(const StoreRequest& message, std::uint64_t connection) {
  meet_speaker(connection, message.replica);
  using Kind = StoreRequest::Kind;
  if (message.kind == Kind::kPush) require_parameters(message.untouched);
  if (message.kind == Kind::kTake || message.kind == Kind::kBegin || message.kind == Kind::kTell ||
      message.kind == Kind::kLeave) {
    require_tickets(message.done);
    require_work(message);
  }
  if (message.kind == Kind::kBegin) require_tickets({message.ticket});
}

void Space::meet_speaker(std::uint64_t connection, std::int32_t replica) {
  const std::lock_guard lock(speakers_mutex_);
  const auto [own, is_new] = speakers_.try_emplace(connection, Speaker{.replica = replica});
  if (own->second.replica != replica)
    throw Error(ErrorCode::kBadInput, fmt::format("replica {} of job {} speaks as replica {}",
                                                  own->second.replica, options_.spec.job, replica));
}

void Space::require_parameters(const std::vector<std::int32_t>& parameters) const {
  const auto count = std::int32_t(options_.spec.parameters.size());
  for (const std::int32_t one : parameters)
    if (one < 0 || one >= count)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("parameter {} of job {}, which has {}", one, options_.spec.job, count));
}

void Space::require_clock(const StoreRequest& message) const {
  if (message.clock > options_.spec.tickets)
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} of job {} says that it has done {} of {} tickets", message.replica,
                            options_.spec.job, message.clock, options_.spec.tickets));
}

void Space::require_tickets(const std::vector<std::int64_t>& tickets) const {
  for (const std::int64_t ticket : tickets)
    if (ticket < 0 || ticket >= options_.spec.tickets)
      throw Error(ErrorCode::kBadInput, fmt::format("ticket {} of job {}, which has {}", ticket,
                                                    options_.spec.job, options_.spec.tickets));
}

// Whether the gradient of a ticket has come to slice 0, which is in the scheduler's part.
bool Space::has_gradient(std::int64_t ticket) {
  Held* const first = known(0);
  if (first == nullptr) return false;
  if (options_.spec.vectors == 0) return first->slice.has(ticket);
  const PortionTicket of = portion_ticket(ticket, options_.spec.portions);
  return first->slice.has_portion(of.evaluation, of.portion);
}

// The coordinator's ticket has no gradient: it is done when the coordinator's state is newer.
bool Space::is_coordinated(std::int64_t ticket) {
  const PortionTicket of = portion_ticket(ticket, options_.spec.portions);
  const std::lock_guard lock(desk_);
  return of.evaluation < coordinator_.evaluation;
}

// A replica that reports a ticket done has acknowledgements from all slices. The caller must not hold the
// scheduler's lock: a slice's may be held for a whole update.
void Space::require_work(const StoreRequest& message) {
  const std::int64_t portions = options_.spec.portions;
  for (const std::int64_t ticket : message.done) {
    const bool is_coordinators = portions > 0 && portion_ticket(ticket, portions).portion == portions;
    if (is_coordinators ? is_coordinated(ticket) : has_gradient(ticket)) continue;
    require_primary(0);  // it may have been handed over meanwhile, with its values
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} says that it has done ticket {} of job {}, of which nothing has come",
                            message.replica, ticket, options_.spec.job));
  }
}

// The ranges have the form begin, end, begin, end ...
void Space::require_ranges(const std::vector<std::int64_t>& ranges) const {
  const bool is_sound = ranges.size() % 2 == 0 && std::ranges::is_sorted(ranges) &&
                        (ranges.empty() || (ranges.front() >= 0 && ranges.back() <= options_.spec.tickets));
  if (!is_sound)
    throw Error(ErrorCode::kBadInput, fmt::format("tickets that job {}, which has {}, cannot have",
                                                  options_.spec.job, options_.spec.tickets));
}

// A push or a claim is repeated when its answer was lost, or when its ticket was dealt again after the loss
// of a server. An honest replica does not repeat this many in a row.
void Space::require_progress(const StoreRequest& message, std::uint64_t connection,
                             const std::function<bool()>& is_repeated) {
  const std::size_t messages = options_.spec.slices() + options_.spec.tables.size() * kParts + 1;
  const auto allowed = std::int64_t(kRepeatsAtOnce * messages);
  std::int64_t repeats = 0;
  {
    const std::lock_guard lock(speakers_mutex_);
    if (const auto found = speakers_.find(connection); found != speakers_.end())
      repeats = found->second.repeats;
  }
  if (repeats >= allowed && is_repeated())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("replica {} sent {} pushes, first values or tickets one after another that were there "
                    "before",
                    message.replica, repeats));
}

void Space::note_progress(std::uint64_t connection, bool is_repeated) {
  const std::lock_guard lock(speakers_mutex_);
  const auto found = speakers_.find(connection);
  if (found == speakers_.end()) return;
  found->second.repeats = is_repeated ? found->second.repeats + 1 : 0;
}

// Other replicas may have done the same ticket first; that excuses one repeat.
void Space::note_claims(std::uint64_t connection, const std::vector<std::int64_t>& done, bool is_repeated) {
  if (done.empty()) return;
  const std::int64_t latest = *std::ranges::max_element(done);
  const std::lock_guard lock(speakers_mutex_);
  const auto found = speakers_.find(connection);
  if (found == speakers_.end()) return;
  Speaker& speaker = found->second;
  if (!is_repeated)
    speaker.repeats = 0;
  else if (latest <= speaker.claimed)
    ++speaker.repeats;
  speaker.claimed = std::max(speaker.claimed, latest);
}

// A slow replica may come late with each of its pushes. Repeating the same one is no progress.
void Space::note_own_work(std::uint64_t connection, std::int64_t ticket, bool is_repeated) {
  const std::lock_guard lock(speakers_mutex_);
  const auto found = speakers_.find(connection);
  if (found == speakers_.end()) return;
  Speaker& speaker = found->second;
  speaker.repeats = is_repeated && ticket <= speaker.latest ? speaker.repeats + 1 : 0;
  speaker.latest = std::max(speaker.latest, ticket);
}

bool Space::has_speakers() {
  const std::lock_guard lock(speakers_mutex_);
  return !speakers_.empty();
}

bool Space::is_speaking(std::int32_t replica) {
  const std::lock_guard lock(speakers_mutex_);
  return std::ranges::any_of(speakers_, [&](const auto& other) { return other.second.replica == replica; });
}

// Returns the replica, if it has no other connection.
std::optional<std::int32_t> Space::forget_speaker(std::uint64_t connection) {
  std::int32_t replica = 0;
  {
    const std::lock_guard lock(speakers_mutex_);
    const auto found = speakers_.find(connection);
    if (found == speakers_.end()) return std::nullopt;
    replica = found->second.replica;
    speakers_.erase(found);
    if (std::ranges::any_of(speakers_, [&](const auto& other) { return other.second.replica == replica; }))
      return std::nullopt;
  }
  if (options_.spec.compensation == 0) return replica;
  const std::lock_guard lock(structure_);
  for (const std::unique_ptr<Held>& one : slices_)
    if (one) one->slice.forget(replica);
  return replica;
}

std::span<const float> Space::payload_for(const Held& held, const StoreRequest& message,
                                          const Request& request) const {
  require_size(held, message, request);
  const std::span<const float> values = floats_in(request);
  // A line search may try a distant point, and its gradients are not squared here.
  if (options_.spec.vectors > 0 ? !are_finite(values) : !are_moderate(values))
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("replica {} sent a number that is not finite, or larger than {}, for slice {} of job "
                    "{} (ticket {}); lower train.lr",
                    message.replica, kMostMagnitude, message.slice, options_.spec.job, message.ticket));
  if (!is_usable_rate(message.lr))
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} sent a learning rate of {} for slice {} of job {}; lower train.lr",
                            message.replica, message.lr, message.slice, options_.spec.job));
  return values;
}

// The caller holds the slice's lock. A replica can have read a version that does not exist here yet only from
// a primary that was lost before its backup had the version.
void Space::require_base(Held& held, const StoreRequest& message) const {
  if (held.taken_over || message.base <= held.slice.version()) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("replica {} goes by version {} of slice {} of job {}, which is at {}", message.replica,
                  message.base, message.slice, options_.spec.job, held.slice.version()));
}

// Where delay is compensated, a copy of each replica's values is kept.
void Space::require_copy(Held& held, std::int32_t replica) const {
  if (held.slice.reserve_copy(replica)) return;
  throw Error(
      ErrorCode::kBadInput,
      has_no_room(fmt::format("what replica {} reads, which parallel.delay_compensation needs", replica)));
}

std::string Space::has_no_room(const std::string& why) const {
  const Budget& budget = *options_.budget;
  return fmt::format(
      "job {} has {} bytes on this server, which takes {} of one job and {} in all: there is no room for {}",
      options_.spec.job, budget.taken(), budget.limit(), limit_of_all(budget), why);
}

// Portions come in any order, and each may wait for its sibling.
void Space::require_sum(Held& held, const compute::VectorSlice::Portion& portion) const {
  if (held.slice.reserve_sum(portion.evaluation, portion.portion)) return;
  throw Error(ErrorCode::kBadInput,
              has_no_room(fmt::format("another portion that waits for the one beside it, which is {} of "
                                      "evaluation {}",
                                      portion.portion, portion.evaluation)));
}

// The caller holds the slice's lock. The slice keeps the room for later steps, so that a new job does not
// take it. A repeated part takes the room of the one before.
void Space::require_part_room(Held& held, const StoreRequest& message) const {
  const auto is_own = [&](const Waiting& part) { return part.message.replica == message.replica; };
  const bool has_room = held.parts.size() < held.part_rooms || std::ranges::any_of(held.parts, is_own);
  if (!options_.budget || has_room) return;
  if (!options_.budget->take(held.slice.size() * sizeof(float)))
    throw Error(ErrorCode::kBadInput,
                has_no_room(fmt::format("what replica {} brings to step {}, until the others have come",
                                        message.replica, message.ticket)));
  ++held.part_rooms;
}

// Replicas of a step have separate lanes and the same settings.
void Space::require_fits(const Held& held, const StoreRequest& message) const {
  if (message.samples < 0 || message.step_samples < 1 || message.samples > message.step_samples ||
      message.step_samples > kMostStepSamples)
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} sent the sum over {} of {} samples; a step has 1 to {}",
                            message.replica, message.samples, message.step_samples, kMostStepSamples));
  for (const Waiting& part : held.parts) {
    const StoreRequest& other = part.message;
    if (other.replica == message.replica) continue;
    const bool meet = other.first_lane < message.end_lane && message.first_lane < other.end_lane;
    if (meet || other.lr != message.lr || other.step_samples != message.step_samples)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("replica {} has other lanes or settings in step {} of job {} than go with "
                              "replica {}'s",
                              message.replica, message.ticket, options_.spec.job, other.replica));
  }
}

}  // namespace distbelief::server
