#include "distbelief/cluster/enrolment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

constexpr const char* kControl = "DISTBELIEF_CONTROL";
constexpr const char* kCohort = "DISTBELIEF_COHORT";
constexpr const char* kSnapshots = "DISTBELIEF_SNAPSHOTS";
constexpr const char* kRunDir = "DISTBELIEF_RUN_DIR";

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<Variable> variables_of(const Enrolment& enrolment) {
  return {{kControl, enrolment.control},
          {kCohort, std::to_string(enrolment.cohort)},
          {kSnapshots, enrolment.snapshots},
          {kRunDir, enrolment.run_dir.string()}};
}

std::optional<Enrolment> own_enrolment() {
  Enrolment found{
      .control = value_of(kControl), .snapshots = value_of(kSnapshots), .run_dir = value_of(kRunDir)};
  if (found.control.empty()) return std::nullopt;
  const std::string cohort = value_of(kCohort);
  const char* end = cohort.data() + cohort.size();
  const auto [stop, error] = std::from_chars(cohort.data(), end, found.cohort);
  if (error != std::errc{} || stop != end || found.cohort < 1 || found.run_dir.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}={} comes with {}='{}' and {}='{}'; distbelief launch sets all of them: unset "
                            "them to run without it",
                            kControl, found.control, kCohort, cohort, kRunDir, found.run_dir.string()));
  return found;
}

}  // namespace distbelief::cluster
