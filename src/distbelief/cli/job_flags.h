#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "distbelief/job/job_file.h"

namespace distbelief::cli {

// The flags that several commands share, and the job they amount to.
struct JobFlags {
  std::string job_file;
  std::string data_dir;
  std::vector<std::string> sets;

  void add_to(CLI::App& command, bool job_required);
  // Read, overridden and checked as far as that needs neither model nor data.
  job::Job read() const;
};

// A packed set behind https without data.ca_file is trusted as SSL_CERT_FILE says, where that is set: workers
// on other hosts do not have this environment, but the job.
inline constexpr const char* kTrustVariable = "SSL_CERT_FILE";
void trust_environment(DataConfig& data);

}  // namespace distbelief::cli
