#pragma once

#include <proto/control.pb.h>

#include "distbelief/comm/rpc/control.h"

// Conversions between the plain values and their protobuf messages. Private to this folder.
namespace distbelief::comm {

namespace wire = distbelief::control;

wire::Report to_wire(const WorkerReport& report);
wire::Order to_wire(const WorkerOrder& order);
wire::Command to_wire(const Command& command);
wire::Reply to_wire(const CommandReply& reply);
WorkerReport from_wire(const wire::Report& report);
WorkerOrder from_wire(const wire::Order& order);
Command from_wire(const wire::Command& command);
CommandReply from_wire(const wire::Reply& reply);

}  // namespace distbelief::comm
