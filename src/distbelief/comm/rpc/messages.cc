#include "distbelief/comm/rpc/messages.h"

namespace distbelief::comm {

wire::Report to_wire(const WorkerReport& report) {
  wire::Report message;
  message.set_generation(report.generation);
  message.set_rank(report.rank);
  message.set_pid(report.pid);
  message.set_host(report.host);
  message.set_state(report.state);
  message.set_step(report.step);
  message.set_from_step(report.from_step);
  message.set_phase(report.phase);
  message.set_step_seconds(report.step_seconds);
  message.set_busy_seconds(report.busy_seconds);
  message.set_slowness(report.slowness);
  message.set_snapshot_step(report.snapshot_step);
  message.set_checkpoint_step(report.checkpoint_step);
  message.set_loss(report.loss);
  message.set_samples_per_second(report.samples_per_second);
  message.set_epoch(report.epoch);
  message.mutable_lanes()->Assign(report.lanes.begin(), report.lanes.end());
  // A message too long to receive would end the stream and lose the reason of the failure.
  message.set_message(report.message.substr(0, kMaxReportTextBytes));
  message.set_suspect(report.suspect);
  message.set_leaving(report.leaving);
  message.set_forgotten(report.forgotten);
  message.set_by_job(report.by_job);
  return message;
}

WorkerReport from_wire(const wire::Report& message) {
  return {.generation = message.generation(),
          .rank = message.rank(),
          .pid = message.pid(),
          .host = message.host(),
          .state = message.state(),
          .step = message.step(),
          .from_step = message.from_step(),
          .phase = message.phase(),
          .step_seconds = message.step_seconds(),
          .busy_seconds = message.busy_seconds(),
          .slowness = message.slowness(),
          .snapshot_step = message.snapshot_step(),
          .checkpoint_step = message.checkpoint_step(),
          .loss = message.loss(),
          .samples_per_second = message.samples_per_second(),
          .epoch = message.epoch(),
          .lanes = {message.lanes().begin(), message.lanes().end()},
          .message = message.message(),
          .suspect = message.suspect(),
          .leaving = message.leaving(),
          .forgotten = message.forgotten(),
          .by_job = message.by_job()};
}

wire::Order to_wire(const WorkerOrder& order) {
  wire::Order message;
  message.set_kind(order.kind);
  message.set_value(order.value);
  message.set_text(order.text);
  return message;
}

WorkerOrder from_wire(const wire::Order& message) {
  return {.kind = message.kind(), .value = message.value(), .text = message.text()};
}

wire::Command to_wire(const Command& command) {
  wire::Command message;
  message.set_name(command.name);
  message.set_value(command.value);
  message.set_text(command.text);
  return message;
}

Command from_wire(const wire::Command& message) {
  return {.name = message.name(), .value = message.value(), .text = message.text()};
}

wire::Reply to_wire(const CommandReply& reply) {
  wire::Reply message;
  message.set_ok(reply.ok);
  message.set_text(reply.text);
  return message;
}

CommandReply from_wire(const wire::Reply& message) { return {.ok = message.ok(), .text = message.text()}; }

}  // namespace distbelief::comm
