#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "distbelief/report/run_history.h"
#include "distbelief/report/tensorboard.h"

namespace distbelief::report {

// Keeps report.html of a run folder, and the event files for TensorBoard, up to date while the run goes on,
// on a thread of its own (`db-page`) that reads what the workers append. What the disk refuses is said once
// on standard error; it never ends a run. Made and finished by one thread.
class PageWriter {
 public:
  struct Options {
    std::filesystem::path run_dir;
    double every_seconds = 10;  // 0: only at the end
    bool tensorboard = false;
  };
  explicit PageWriter(Options options);
  ~PageWriter();  // without finish(): the files stay as they are
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // Ends the thread and writes both a last time. Blocks for that long.
  void finish();

 private:
  void follow(const std::stop_token& stop);
  void write(double refresh_seconds);

  Options options_;
  RunHistory history_;
  std::unique_ptr<TensorBoardFile> tensorboard_;
  bool refused_ = false;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace distbelief::report
