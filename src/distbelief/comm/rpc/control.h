#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// The messages between workers, the supervisor and the program's commands (proto/control.proto is their wire
// format). Plain values, without gRPC. Every member has an initialiser, so that designated initialisers may
// leave it out.
namespace distbelief::comm {

// A worker's report about itself.
struct WorkerReport {
  int generation = 0;
  int rank = 0;
  std::int64_t pid = 0;
  std::string host{};
  std::string state{};  // "starting", "ready", "training", "paused", "saving", "failed", "ended"
  std::int64_t step = -1;
  std::int64_t from_step = -1;  // where its generation began; -1: it has not
  std::string phase{};
  double step_seconds = 0;
  double busy_seconds = 0;  // of a step: the worker's own computing, without waiting
  double slowness = 1;      // of a straggler: its time per lane relative to the others; else 1
  std::int64_t snapshot_step = -1;
  std::int64_t checkpoint_step = -1;
  double loss = 0;
  double samples_per_second = 0;
  std::int64_t epoch = 0;
  std::vector<std::int64_t> lanes{};
  std::string message{};   // why it failed; cut after kMaxReportTextBytes
  int suspect = -1;        // the worker to blame for a failure; -1: the reporting one
  bool leaving = false;    // it was told that its host is about to go away
  bool forgotten = false;  // the run is over, and its host keeps none of its data
  bool by_job = false;     // the job caused the failure and would fail again

  bool operator==(const WorkerReport&) const = default;
};

// To a worker: "go", "stop", "pause", "continue", "hand over", "lanes", ...
struct WorkerOrder {
  std::string kind{};  // never empty: an order without a kind is a heartbeat
  std::int64_t value = 0;
  std::string text{};

  bool operator==(const WorkerOrder&) const = default;
};

// From the command line to the supervisor.
struct Command {
  std::string name{};
  std::int64_t value = 0;
  std::string text{};

  bool operator==(const Command&) const = default;
};

struct CommandReply {
  bool ok = false;
  std::string text{};  // json or a message

  bool operator==(const CommandReply&) const = default;
};

// The supervisor's address. On one host a Unix socket, protected by file permissions; between hosts TCP,
// always with mutual TLS (certificates.h). A server on "host:0" takes a free port.
struct ControlAddress {
  std::string target{};  // "unix:/path" or "host:port"
  // PEM files, or the text itself; empty with a Unix socket.
  std::string ca{}, certificate{}, key{};
  std::string expected_role{};  // the role that a client requires of the server; empty: supervisor
  // TCP: how long a peer may be silent, as behind a cut link, before the connection is closed. Unused with a
  // Unix socket.
  std::chrono::milliseconds silence{5000};
};

inline constexpr int kMaxControlMessageBytes = 4 << 20;
inline constexpr std::size_t kMaxReportTextBytes = 64 << 10;
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};

}  // namespace distbelief::comm
