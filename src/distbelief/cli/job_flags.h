#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "distbelief/job/job_file.h"

namespace distbelief::cli {

// The flags that several commands share, and the job that they describe.
struct JobFlags {
  std::string job_file;
  std::string data_dir;
  std::vector<std::string> sets;

  void add_to(CLI::App& command, bool job_required);
  // Reads the job, applies overrides, and checks everything that needs neither model nor data.
  job::Job read() const;
};

// Sets data.ca_file from SSL_CERT_FILE for a packed set behind https, if the job does not set it: workers on
// other hosts get the job, but not this environment.
inline constexpr const char* kTrustVariable = "SSL_CERT_FILE";
void trust_environment(DataConfig& data);

}  // namespace distbelief::cli
