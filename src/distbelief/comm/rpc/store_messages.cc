#include <fmt/format.h>
#include <proto/store.pb.h>

#include <cmath>
#include <limits>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange.h"
#include "distbelief/comm/rpc/store.h"

namespace distbelief::comm {
namespace {

void require(bool is_good, const char* what) {
  if (!is_good)
    throw Error(ErrorCode::kBadInput, fmt::format("a message to a parameter server has {}", what));
}

void write_rule(const OptimizerConfig& from, store::Rule& to) {
  to.set_name(from.name);
  to.set_momentum(from.momentum);
  to.set_nesterov(from.nesterov);
  to.set_weight_decay(from.weight_decay);
  to.set_beta1(from.beta1);
  to.set_beta2(from.beta2);
  to.set_eps(from.eps);
}

OptimizerConfig read_rule(const store::Rule& from) {
  OptimizerConfig to;
  to.name = from.name();
  to.lr = 0;  // comes with each push
  to.momentum = from.momentum();
  to.nesterov = from.nesterov();
  to.weight_decay = from.weight_decay();
  to.beta1 = from.beta1();
  to.beta2 = from.beta2();
  to.eps = from.eps();
  return to;
}

void write_space(const SpaceSpec& from, store::Space& to) {
  to.set_job(from.job);
  to.set_elements(from.elements);
  for (const SpaceSpec::Stretch& stretch : from.parameters) {
    store::Stretch& one = *to.add_parameters();
    one.set_begin(stretch.begin);
    one.set_count(stretch.count);
  }
  to.set_lane_values(from.lane_values);
  write_rule(from.optimizer, *to.mutable_rule());
  to.set_mode(from.mode);
  to.set_lanes(from.lanes);
  to.set_spare_lanes(from.spare_lanes);
  to.set_staleness(from.staleness);
  to.set_tickets(from.tickets);
  to.set_compensation(from.compensation);
  to.set_staleness_aware(from.staleness_aware);
  to.set_portions(from.portions);
  to.set_vectors(from.vectors);
  for (const TableSpec& table : from.tables) {
    store::Table& one = *to.add_tables();
    one.set_name(table.name);
    one.set_width(table.width);
    one.set_seed(table.seed);
    one.set_scale(table.scale);
    one.set_most_rows(table.most_rows);
  }
  to.set_loads_rows(from.loads_rows);
  to.set_sub_network(from.sub_network);
  to.set_input_bytes(from.input_bytes);
  to.set_window(from.window);
}

SpaceSpec read_space(const store::Space& from) {
  SpaceSpec to{.job = from.job(),
               .elements = from.elements(),
               .lane_values = from.lane_values(),
               .optimizer = read_rule(from.rule()),
               .mode = from.mode(),
               .lanes = from.lanes(),
               .spare_lanes = from.spare_lanes(),
               .staleness = from.staleness(),
               .tickets = from.tickets(),
               .compensation = from.compensation(),
               .staleness_aware = from.staleness_aware(),
               .portions = from.portions(),
               .vectors = from.vectors()};
  for (const store::Stretch& stretch : from.parameters())
    to.parameters.push_back({.begin = stretch.begin(), .count = stretch.count()});
  for (const store::Table& table : from.tables())
    to.tables.push_back({.name = table.name(),
                         .width = table.width(),
                         .seed = table.seed(),
                         .scale = table.scale(),
                         .most_rows = table.most_rows()});
  to.loads_rows = from.loads_rows();
  to.sub_network = from.sub_network();
  to.input_bytes = from.input_bytes();
  to.window = from.window();
  return to;
}

using Kind = StoreRequest::Kind;

bool is_known(int kind) {
  const auto is_among = [&](Kind first, Kind last) { return kind >= int(first) && kind <= int(last); };
  return is_among(Kind::kOpen, Kind::kTell) || is_among(Kind::kCommand, Kind::kAdvance) ||
         is_among(Kind::kReplicateCommand, Kind::kKeep) || is_among(Kind::kPushRows, Kind::kLoadRows) ||
         is_among(Kind::kPutInput, Kind::kKeepStatistics) || kind == int(Kind::kClose);
}

std::vector<Operation> operations_of(const store::Request& wire) {
  std::vector<Operation> operations;
  for (const store::Operation& one : wire.operations())
    operations.push_back({Operation::Kind(one.kind()), one.target(), one.source(), one.factor()});
  return operations;
}

}  // namespace

bool is_of_server(StoreRequest::Kind kind) {
  return (kind >= Kind::kReplicate && kind <= Kind::kDeals) || kind == Kind::kReplicateCommand ||
         kind == Kind::kKeep || kind == Kind::kRows || kind == Kind::kKeepInput ||
         kind == Kind::kKeepStatistics;
}

std::size_t TableSpec::message_rows() const {
  return kMaxPayloadBytes / record_bytes() / (most_rows > 0 ? 2 : 1);
}

std::string encode(const SpaceSpec& spec) {
  store::Space wire;
  write_space(spec, wire);
  return wire.SerializeAsString();
}

SpaceSpec decode_space(std::string_view bytes) {
  store::Space wire;
  require(wire.ParseFromArray(bytes.data(), int(bytes.size())), "no form that can be read");
  require(std::isfinite(wire.compensation()) && wire.compensation() >= 0, "a compensation that is no number");
  const store::Rule& rule = wire.rule();
  for (const double number : {rule.momentum(), rule.weight_decay(), rule.beta1(), rule.beta2(), rule.eps()})
    require(std::isfinite(number), "a rule with a setting that is no number");
  return read_space(wire);
}

std::string encode(const StoreRequest& request) {
  store::Request wire;
  wire.set_kind(int(request.kind));
  wire.set_space(request.space);
  wire.set_replica(request.replica);
  wire.set_incarnation(request.incarnation);
  wire.set_slice(request.slice);
  wire.set_ticket(request.ticket);
  wire.set_base(request.base);
  wire.set_lr(request.lr);
  wire.set_first_lane(request.first_lane);
  wire.set_end_lane(request.end_lane);
  wire.set_samples(request.samples);
  wire.set_step_samples(request.step_samples);
  wire.set_wants_values(request.wants_values);
  wire.mutable_untouched()->Assign(request.untouched.begin(), request.untouched.end());
  wire.mutable_done()->Assign(request.done.begin(), request.done.end());
  wire.set_clock(request.clock);
  wire.set_job(request.job);
  wire.set_version(request.version);
  wire.set_epoch(request.epoch);
  wire.set_piece(request.piece);
  wire.mutable_counts()->Assign(request.counts.begin(), request.counts.end());
  wire.set_below(request.below);
  wire.set_pieces(request.pieces);
  wire.mutable_replicas()->Assign(request.replicas.begin(), request.replicas.end());
  wire.set_granted(request.granted);
  for (const Operation& operation : request.operations) {
    store::Operation& one = *wire.add_operations();
    one.set_kind(int(operation.kind));
    one.set_target(operation.target);
    one.set_source(operation.source);
    one.set_factor(operation.factor);
  }
  wire.set_sequence(request.sequence);
  wire.mutable_numbers()->Assign(request.numbers.begin(), request.numbers.end());
  wire.set_loss(request.loss);
  wire.set_ends(request.ends);
  wire.set_table(request.table);
  wire.set_parts(request.parts);
  return wire.SerializeAsString();
}

std::string encode(const StoreAnswer& answer) {
  store::Answer wire;
  wire.set_outcome(int(answer.outcome));
  wire.set_space(answer.space);
  wire.set_version(answer.version);
  wire.set_ticket(answer.ticket);
  wire.set_epoch(answer.epoch);
  wire.set_clock(answer.clock);
  wire.mutable_numbers()->Assign(answer.numbers.begin(), answer.numbers.end());
  wire.set_rows(answer.rows);
  wire.set_gone(answer.gone);
  wire.set_bytes(answer.bytes);
  return wire.SerializeAsString();
}

StoreRequest decode_request(std::string_view bytes) {
  store::Request wire;
  require(wire.ParseFromArray(bytes.data(), int(bytes.size())), "no form that can be read");
  require(is_known(wire.kind()), "an unknown kind");
  require(wire.replica() < kMostReplicas, "the number of a replica that no job has");
  require(wire.clock() >= -1, "a clock before its beginning");
  require(wire.replica() >= 0 && wire.slice() >= 0 && wire.ticket() >= 0 && wire.base() >= 0,
          "a negative number of a replica, slice, ticket or version");
  require(std::isfinite(float(wire.lr())), "a learning rate that is no number");
  require(wire.sequence() >= 0 && wire.pieces() >= 0, "a negative number of a command or of pieces");
  require(wire.incarnation() >= 0 && wire.incarnation() < kMostStarts,
          "a replica started more often than any is");
  require(wire.first_lane() >= 0 && wire.end_lane() >= 0, "a negative number of a lane");
  require(wire.piece() >= 0 && wire.piece() < std::numeric_limits<std::int32_t>::max(),
          "the number of a piece that nothing has");
  return {.kind = StoreRequest::Kind(wire.kind()),
          .space = wire.space(),
          .replica = wire.replica(),
          .incarnation = wire.incarnation(),
          .slice = wire.slice(),
          .ticket = wire.ticket(),
          .base = wire.base(),
          .lr = wire.lr(),
          .first_lane = wire.first_lane(),
          .end_lane = wire.end_lane(),
          .samples = wire.samples(),
          .step_samples = wire.step_samples(),
          .wants_values = wire.wants_values(),
          .untouched = {wire.untouched().begin(), wire.untouched().end()},
          .done = {wire.done().begin(), wire.done().end()},
          .clock = wire.clock(),
          .job = wire.job(),
          .version = wire.version(),
          .epoch = wire.epoch(),
          .piece = wire.piece(),
          .counts = {wire.counts().begin(), wire.counts().end()},
          .below = wire.below(),
          .pieces = wire.pieces(),
          .replicas = {wire.replicas().begin(), wire.replicas().end()},
          .granted = wire.granted(),
          .operations = operations_of(wire),
          .sequence = wire.sequence(),
          .numbers = {wire.numbers().begin(), wire.numbers().end()},
          .loss = wire.loss(),
          .ends = wire.ends(),
          .table = wire.table(),
          .parts = wire.parts()};
}

StoreAnswer decode_answer(std::string_view bytes) {
  store::Answer wire;
  require(wire.ParseFromArray(bytes.data(), int(bytes.size())), "no form that can be read");
  require(wire.outcome() >= 0 && wire.outcome() <= int(StoreAnswer::Outcome::kStale), "an unknown outcome");
  return {.outcome = StoreAnswer::Outcome(wire.outcome()),
          .space = wire.space(),
          .version = wire.version(),
          .ticket = wire.ticket(),
          .epoch = wire.epoch(),
          .clock = wire.clock(),
          .numbers = {wire.numbers().begin(), wire.numbers().end()},
          .rows = wire.rows(),
          .gone = wire.gone(),
          .bytes = wire.bytes()};
}

}  // namespace distbelief::comm
