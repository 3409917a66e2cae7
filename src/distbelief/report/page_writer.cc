#include "distbelief/report/page_writer.h"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/report/page.h"

namespace distbelief::report {

PageWriter::PageWriter(Options options) : options_(std::move(options)), history_(options_.run_dir) {
  if (options_.every_seconds > 0 || options_.tensorboard)
    thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
}

PageWriter::~PageWriter() = default;

void PageWriter::follow(const std::stop_token& stop) {
  constexpr double kTensorBoardSeconds = 10;
  pthread_setname_np(pthread_self(), "db-page");
  const double seconds = options_.every_seconds > 0 ? options_.every_seconds : kTensorBoardSeconds;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
    if (stop.stop_requested()) return;
    write(seconds);
  }
}

void PageWriter::write(double refresh_seconds) {
  try {
    if (options_.tensorboard && !tensorboard_)
      tensorboard_ = std::make_unique<TensorBoardFile>(options_.run_dir);
    if (tensorboard_) tensorboard_->read_new();
    history_.read_new();
    if (options_.every_seconds > 0 || refresh_seconds == 0)
      write_page(options_.run_dir, history_, refresh_seconds);
    refused_ = false;
  } catch (const std::exception& error) {
    if (!refused_) fmt::print(stderr, "distbelief: no report: {}; training goes on\n", error.what());
    refused_ = true;
  }
}

void PageWriter::finish() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  write(0);
}

}  // namespace distbelief::report
