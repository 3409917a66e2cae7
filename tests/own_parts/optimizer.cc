// A rule for updates of one's own: steps of one size, against the sign of the gradient.
#include <cmath>

#include "distbelief/cli/extension.h"
#include "parts.h"

using namespace distbelief;

namespace {

class Signs final : public compute::Optimizer {
 public:
  std::vector<std::string> state_names() const override { return {}; }
  void update(const compute::UpdateRange& range) const override {
    for (std::size_t i = 0; i < range.count; ++i)
      if (range.gradients[i] != 0) range.parameters[i] -= std::copysign(float(range.lr), range.gradients[i]);
  }
};

}  // namespace

void register_own_optimizer() {
  register_optimizer({"signs", [](const OptimizerConfig&) -> std::unique_ptr<compute::Optimizer> {
                        return std::make_unique<Signs>();
                      }});
}
