#include "distbelief/mesh/lane_team.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <map>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
namespace {

// Whether the failure is only a consequence of another one.
bool is_consequence(const std::exception_ptr& failure) try {
  std::rethrow_exception(failure);
} catch (const Error& error) {
  return error.code() == ErrorCode::kAborted;
} catch (...) {
  return false;
}

}  // namespace

LaneTeam::LaneTeam(std::vector<std::unique_ptr<LaneRunner>> runners, const Options& options)
    : runners_(std::move(runners)),
      options_(options) {
  for (std::size_t i = 1; i < runners_.size(); ++i) {
    threads_.emplace_back([this, i](const std::stop_token& stop) { run(*runners_[i], stop); });
    pthread_setname_np(threads_.back().native_handle(), fmt::format("db-lane{}", i).c_str());
  }
}

LaneTeam::~LaneTeam() {
  for (std::jthread& thread : threads_) thread.request_stop();
  changed_.notify_all();
}

void LaneTeam::run(LaneRunner& runner, const std::stop_token& stop) {
  std::uint64_t done = 0;
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return wanted_ > done; })) {
    done = wanted_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      runner.step(plan_, wishes_);
    } catch (const std::exception& error) {
      failure = std::current_exception();
      options_.abort->set(options_.workers->rank(), error.what());
    }
    lock.lock();
    if (failure && (!failure_ || is_consequence(failure_))) failure_ = failure;
    --running_;
    changed_.notify_all();
  }
}

StepOutcome LaneTeam::step(const StepPlan& plan, const LaneNotes& wishes) {
  {
    const std::lock_guard lock(mutex_);
    plan_ = plan;
    wishes_ = wishes;
    running_ = int(threads_.size());
    ++wanted_;
  }
  changed_.notify_all();
  StepOutcome outcome;
  std::exception_ptr failure;
  try {
    outcome = runners_[0]->step(plan, wishes);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    options_.abort->set(options_.workers->rank(), error.what());
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
  if (failure && !is_consequence(failure)) std::rethrow_exception(failure);
  if (failure_) std::rethrow_exception(failure_);
  if (failure) std::rethrow_exception(failure);
  return outcome;
}

tasks::Evaluation LaneTeam::evaluate(const tasks::ReadChunk& read, std::uint64_t samples) {
  if (!options_.group->gathers_between_hosts())
    return tasks::evaluate(runners_[0]->network(), *options_.task, read, samples, *options_.workers);
  model::Network& network = runners_[0]->network();
  LaneGather& gather = *runners_[0]->gather();
  const std::uint64_t chunks = (samples + tasks::kEvaluationChunk - 1) / tasks::kEvaluationChunk;
  const auto workers = std::uint64_t(options_.workers->size());
  // All workers gather blocks as often as the busiest one needs them.
  options_.group->begin_evaluation(std::int64_t((chunks + workers - 1) / workers));
  std::map<std::uint64_t, tasks::Score> scores;  // by the chunk's first sample
  network.eval();
  const model::SamplesInOrderScope in_order;
  for (auto chunk = std::uint64_t(options_.workers->rank()); chunk < chunks; chunk += workers) {
    const std::uint64_t begin = chunk * tasks::kEvaluationChunk;
    const data::Batch& batch = read({begin, std::min(samples, begin + tasks::kEvaluationChunk)});
    gather.begin(Pass::kForward);
    scores[begin] = options_.task->score(
        network, tasks::prepared_for_test(*options_.task, tasks::as_tensors(batch), network.device()));
    gather.finish();
  }
  network.train();
  // Ends before the workers communicate, because until then the exchange does.
  options_.group->end_evaluation();
  return tasks::evaluate({.task = options_.task,
                          .samples = samples,
                          .part = options_.workers->rank(),
                          .parts = options_.workers->size()},
                         *options_.workers, [&](data::Range range) { return scores.at(range.begin); });
}

compute::BufferSet& LaneTeam::buffers(int stage, int thread) {
  DISTBELIEF_INVARIANT(stage == 0);
  return runners_[std::size_t(thread)]->buffers();
}

}  // namespace distbelief::mesh
