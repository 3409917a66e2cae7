#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// What workers, the supervisor and the program's commands say to each other (proto/control.proto is the
// form it takes on the wire). Plain values, without gRPC. Every member has an initialiser, so that designated
// initialisers may leave it out.
namespace distbelief::comm {

// What a worker says about itself.
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
  double busy_seconds = 0;  // of a step: its own computing, without waiting for others
  double slowness = 1;      // of a straggler: times as long for a lane as the others; else 1
  std::int64_t snapshot_step = -1;
  std::int64_t checkpoint_step = -1;
  double loss = 0;
  double samples_per_second = 0;
  std::int64_t epoch = 0;
  std::vector<std::int64_t> lanes{};
  std::string message{};   // why it failed; cut after kMaxReportTextBytes
  int suspect = -1;        // of a failure: the worker to blame; -1: the one that reports it
  bool leaving = false;    // it was told that its host is about to go
  bool forgotten = false;  // the run is over, and its host keeps nothing of it
  bool by_job = false;     // of a failure: the job is at fault, and would fail again

  bool operator==(const WorkerReport&) const = default;
};

// To a worker: "go", "stop", "pause", "continue", "hand over", "lanes", ...
struct WorkerOrder {
  std::string kind{};  // not empty: without a kind it would be a heartbeat
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

// Where the supervisor is. On one host a Unix socket, guarded by file permissions; between hosts TCP, always
// with mutual TLS (certificates.h). A server on "host:0" takes a free port.
struct ControlAddress {
  std::string target{};  // "unix:/path" or "host:port"
  // PEM files, or the text itself; empty with a Unix socket.
  std::string ca{}, certificate{}, key{};
  std::string expected_role{};  // for a client: what the server must prove to be; empty: supervisor
  // TCP: a peer that is silent for so long, as behind a cut link, is given up. A Unix socket needs none.
  std::chrono::milliseconds silence{5000};
};

inline constexpr int kMaxControlMessageBytes = 4 << 20;
inline constexpr std::size_t kMaxReportTextBytes = 64 << 10;
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};

}  // namespace distbelief::comm
