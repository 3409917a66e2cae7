#include "distbelief/report/phases.h"

namespace distbelief::report {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kData: return "data";
    case Phase::kForward: return "forward";
    case Phase::kBackward: return "backward";
    case Phase::kExchange: return "exchange";
    case Phase::kUpdate: return "update";
    case Phase::kOther: return "other";
  }
  return "unknown";
}

}  // namespace distbelief::report
