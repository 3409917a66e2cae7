#include "distbelief/compute/optimizer.h"

#include <cmath>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/compute/kernels.h"

namespace distbelief::compute {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerConfig& config) : config_(config) {}
  std::vector<std::string> state_names() const override {
    return config_.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
  }
  void update(const UpdateRange& r) const override {
    const SgdTerms terms{float(r.lr), float(config_.momentum), float(config_.weight_decay)};
    if (config_.momentum == 0)
      sgd_plain(r.parameters, r.gradients, terms, r.count);
    else if (config_.nesterov)
      sgd_nesterov(r.parameters, r.gradients, r.states[0], terms, r.count);
    else
      sgd_momentum(r.parameters, r.gradients, r.states[0], terms, r.count);
  }

 private:
  OptimizerConfig config_;
};

enum class Decay { kCoupled, kDecoupled };

// Kingma and Ba, 2015; decoupled weight decay (AdamW): Loshchilov and Hutter, 2019.
class Adam final : public Optimizer {
 public:
  Adam(const OptimizerConfig& config, Decay decay) : config_(config), decay_(decay) {}
  std::vector<std::string> state_names() const override { return {"mean", "square"}; }
  void update(const UpdateRange& r) const override {
    const double t = double(r.step);
    const bool coupled = decay_ == Decay::kCoupled;
    adam(r.parameters, r.gradients, r.states[0], r.states[1],
         {.beta1 = float(config_.beta1),
          .beta2 = float(config_.beta2),
          .one_minus_beta1 = float(1 - config_.beta1),
          .one_minus_beta2 = float(1 - config_.beta2),
          .step_size = float(r.lr / (1 - std::pow(config_.beta1, t))),
          .root_correction = float(std::sqrt(1 - std::pow(config_.beta2, t))),
          .eps = float(config_.eps),
          .coupled_decay = coupled ? float(config_.weight_decay) : 0.0F,
          .shrink = coupled ? 1.0F : float(1 - r.lr * config_.weight_decay)},
         r.count);
  }

 private:
  OptimizerConfig config_;
  Decay decay_;
};

// Duchi, Hazan and Singer, 2011.
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const OptimizerConfig& config) : config_(config) {}
  std::vector<std::string> state_names() const override { return {"square"}; }
  void update(const UpdateRange& r) const override {
    adagrad(r.parameters, r.gradients, r.states[0], float(r.lr), float(config_.eps),
            float(config_.weight_decay), r.count);
  }

 private:
  OptimizerConfig config_;
};

// You, Gitman and Ginsburg, 2017.
class Lars final : public LayerwiseOptimizer {
 public:
  explicit Lars(const OptimizerConfig& config) : config_(config) {}
  std::vector<std::string> state_names() const override { return {"momentum"}; }
  Norms measure(const UpdateRange& r) const override {
    return {sum_of_squares(r.parameters, r.count), sum_of_squares(r.gradients, r.count)};
  }
  double trust(const Norms& whole) const override {
    const double p = std::sqrt(whole.parameters), g = std::sqrt(whole.direction);
    if (p == 0 || g == 0) return 1;
    return config_.trust * p / (g + config_.weight_decay * p + config_.eps);
  }
  void update(const UpdateRange& r) const override {
    lars_apply(r.parameters, r.gradients, r.states[0], float(r.lr * r.trust), float(config_.momentum),
               float(config_.weight_decay), r.count);
  }

 private:
  OptimizerConfig config_;
};

// You et al., 2020 (Large Batch Optimization for Deep Learning: Training BERT in 76 minutes).
class Lamb final : public LayerwiseOptimizer {
 public:
  explicit Lamb(const OptimizerConfig& config) : config_(config) {}
  std::vector<std::string> state_names() const override { return {"mean", "square"}; }
  Norms measure(const UpdateRange& r) const override {
    return {sum_of_squares(r.parameters, r.count),
            lamb_moments(r.parameters, r.gradients, r.states[0], r.states[1], terms(r), r.count)};
  }
  double trust(const Norms& whole) const override {
    const double p = std::sqrt(whole.parameters), d = std::sqrt(whole.direction);
    return p == 0 || d == 0 ? 1 : p / d;
  }
  void update(const UpdateRange& r) const override {
    lamb_apply(r.parameters, r.states[0], r.states[1], terms(r), float(r.lr * r.trust), r.count);
  }

 private:
  LambTerms terms(const UpdateRange& r) const {
    const double t = double(r.step);
    return {.beta1 = float(config_.beta1),
            .beta2 = float(config_.beta2),
            .one_minus_beta1 = float(1 - config_.beta1),
            .one_minus_beta2 = float(1 - config_.beta2),
            .mean_correction = float(1 / (1 - std::pow(config_.beta1, t))),
            .square_correction = float(1 / (1 - std::pow(config_.beta2, t))),
            .eps = float(config_.eps),
            .weight_decay = float(config_.weight_decay)};
  }
  OptimizerConfig config_;
};

// Leaves the gradient in place of the parameters, for callers that average gradients and update themselves.
class KeepGradient final : public Optimizer {
 public:
  std::vector<std::string> state_names() const override { return {}; }
  void update(const UpdateRange& r) const override {
    std::memcpy(r.parameters, r.gradients, r.count * sizeof(float));
  }
};

// Leaves the parameters unchanged; a parameter server has the update rule.
class CollectGradient final : public Optimizer {
 public:
  std::vector<std::string> state_names() const override { return {"gradient"}; }
  void update(const UpdateRange& r) const override {
    std::memcpy(r.states[0], r.gradients, r.count * sizeof(float));
  }
};

constexpr const char* kLbfgs = "lbfgs";

std::vector<OptimizerKind>& table_of_kinds() {
  static std::vector<OptimizerKind> kinds = {
      {"sgd",
       [](const OptimizerConfig& c) -> std::unique_ptr<Optimizer> { return std::make_unique<Sgd>(c); }},
      {"adam",
       [](const OptimizerConfig& c) -> std::unique_ptr<Optimizer> {
         return std::make_unique<Adam>(c, Decay::kCoupled);
       }},
      {"adamw",
       [](const OptimizerConfig& c) -> std::unique_ptr<Optimizer> {
         return std::make_unique<Adam>(c, Decay::kDecoupled);
       }},
      {"adagrad",
       [](const OptimizerConfig& c) -> std::unique_ptr<Optimizer> { return std::make_unique<Adagrad>(c); }},
      {"lars",
       [](const OptimizerConfig& c) -> std::unique_ptr<Optimizer> { return std::make_unique<Lars>(c); }},
      {"lamb",
       [](const OptimizerConfig& c) -> std::unique_ptr<Optimizer> { return std::make_unique<Lamb>(c); }},
      {kLbfgs,
       [](const OptimizerConfig&) -> std::unique_ptr<Optimizer> {
         return std::make_unique<CollectGradient>();
       }},
  };
  return kinds;
}

}  // namespace

void require_own_rule(const OptimizerConfig& config) {
  if (config.name == kLbfgs)
    throw Error(ErrorCode::kBadInput,
                "optimizer 'lbfgs' takes its steps in a coordinator, which only `distbelief train` has; "
                "use sgd, adam, adamw, adagrad, lars or lamb");
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) {
  if (config.name == kKeepGradient) return std::make_unique<KeepGradient>();
  if (config.name == kCollectGradient) return std::make_unique<CollectGradient>();
  for (const OptimizerKind& kind : table_of_kinds())
    if (config.name == kind.name) return kind.make(config);
  throw Error(ErrorCode::kBadInput, "unknown optimizer '" + config.name + "'; did you mean '" +
                                        nearest(config.name, optimizer_names()) + "'?");
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : table_of_kinds()) names.push_back(kind.name);
  return names;
}

void register_optimizer(OptimizerKind kind) {
  for (const OptimizerKind& known : table_of_kinds())
    if (known.name == kind.name || kind.name == kKeepGradient || kind.name == kCollectGradient)
      throw Error(ErrorCode::kBadInput,
                  "there is an optimizer '" + kind.name + "' already; choose another name");
  table_of_kinds().push_back(std::move(kind));
}

}  // namespace distbelief::compute
