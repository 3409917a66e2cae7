#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distbelief/testing/sample_state.h"

namespace distbelief::testing {

constexpr std::chrono::seconds kNever{100};  // a deadline that no test reaches

// One part of a SampleState: tensors are assigned to parts in turn. With three parts the last one has no
// weights.
class SamplePart {
 public:
  SamplePart(const SampleState& state, int part, int parts) : state_(state), part_(part), parts_(parts) {
    const auto all = state.views();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % static_cast<std::size_t>(parts) != static_cast<std::size_t>(part)) continue;
      views_.push_back(all[i]);
      weights_ += i < SampleState::kParameters;
    }
  }
  checkpoint::Snapshot snapshot(std::int64_t step, const std::string& attempt) const {
    checkpoint::Snapshot snapshot = state_.snapshot(step);
    snapshot.tensors = views_;
    snapshot.weights = weights_;
    snapshot.part = part_;
    snapshot.parts = parts_;
    snapshot.attempt = attempt;
    return snapshot;
  }

 private:
  const SampleState& state_;
  int part_, parts_;
  std::vector<checkpoint::TensorView> views_;
  std::size_t weights_ = 0;
};

// The result of saving one part.
struct PartOutcome {
  std::optional<ErrorCode> code;  // none: saved
  std::string message;
};

struct PartsToSave {
  std::int64_t step = 0;
  std::int64_t value = 0;
  int parts = 2;
  std::string attempt = "attempt";
  std::function<checkpoint::Store::Options(int part)> options = [](int) {
    return checkpoint::Store::Options{.may_commit = {}, .at = {}, .deadline = kNever};
  };
};

inline PartOutcome save_part(const std::filesystem::path& folder, const PartsToSave& save, int part) {
  const SampleState state(save.value);
  try {
    checkpoint::Store(folder, save.options(part))
        .save(SamplePart(state, part, save.parts).snapshot(save.step, save.attempt));
  } catch (const Error& error) {
    return {error.code(), error.message()};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, error.what()};
  }
  return {};
}

// Saves each part on its own thread, except part `absent`.
inline std::vector<PartOutcome> save_parts(const std::filesystem::path& folder, const PartsToSave& save,
                                           int absent = -1) {
  std::vector<PartOutcome> outcomes(static_cast<std::size_t>(save.parts));
  {
    std::vector<std::jthread> threads;
    for (int part = 0; part < save.parts; ++part) {
      if (part == absent) continue;
      threads.emplace_back(
          [&, part] { outcomes[static_cast<std::size_t>(part)] = save_part(folder, save, part); });
    }
  }
  return outcomes;
}

// A child process that runs a function and exits with its result.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& run) : id_(fork()) {
    if (id_ != 0) return;
    alarm(60);  // bounds the wait for it
    _exit(run());
  }
  ~ChildProcess() { wait(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void kill() const { ::kill(id_, SIGKILL); }
  // Returns the status of waitpid().
  int wait() {
    if (!std::exchange(waited_, true)) waitpid(id_, &status_, 0);
    return status_;
  }
  bool ended_with(int code) { return WIFEXITED(wait()) && WEXITSTATUS(wait()) == code; }
  bool was_killed() { return WIFSIGNALED(wait()) && WTERMSIG(wait()) == SIGKILL; }

 private:
  pid_t id_;
  int status_ = 0;
  bool waited_ = false;
};

}  // namespace distbelief::testing
