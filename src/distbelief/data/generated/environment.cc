#include "distbelief/data/generated/environment.h"

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kFirstStateStream = 10;

// The constants of the common benchmark.
class CartPole final : public Environment {
 public:
  std::int64_t actions() const override { return 2; }
  std::int64_t most_steps() const override { return 500; }

  EnvironmentState first(SplitMix64& random) const override {
    EnvironmentState state;
    for (float& value : state.values) value = static_cast<float>(0.1 * random.uniform() - 0.05);
    return state;
  }

  Outcome step(EnvironmentState& state, std::int64_t action) const override {
    auto& [place, speed, angle, turning] = state.values;
    const float force = action == 1 ? kForce : -kForce;
    const float cosine = std::cos(angle), sine = std::sin(angle);
    const float pushed = (force + kPoleMoment * turning * turning * sine) / kMass;
    const float turn = (kGravity * sine - cosine * pushed) /
                       (kHalfLength * (4.0F / 3.0F - kPoleMass * cosine * cosine / kMass));
    const float faster = pushed - kPoleMoment * turn * cosine / kMass;
    place += kSeconds * speed;
    speed += kSeconds * faster;
    angle += kSeconds * turning;
    turning += kSeconds * turn;
    state.steps += 1;
    return {.reward = 1, .ended = std::abs(place) > kMostPlace || std::abs(angle) > kMostAngle};
  }

 private:
  static constexpr float kGravity = 9.8F, kPoleMass = 0.1F, kMass = 1.1F, kHalfLength = 0.5F;
  static constexpr float kPoleMoment = kPoleMass * kHalfLength, kForce = 10.0F, kSeconds = 0.02F;
  static constexpr float kMostPlace = 2.4F, kMostAngle = 0.20943951F;
};

// The agent observes its own field and the goal's field, each from -1 to 1.
class GridWorld final : public Environment {
 public:
  std::int64_t actions() const override { return 4; }
  std::int64_t most_steps() const override { return 40; }

  EnvironmentState first(SplitMix64& random) const override {
    EnvironmentState state;
    do {
      for (float& value : state.values) value = seen(static_cast<int>(random.below(kSide)));
    } while (at_goal(state));
    return state;
  }

  Outcome step(EnvironmentState& state, std::int64_t action) const override {
    float& moved = state.values[action / 2];
    moved = seen(std::clamp(field_of(moved) + (action % 2 == 0 ? -1 : 1), 0, kSide - 1));
    state.steps += 1;
    const bool there = at_goal(state);
    return {.reward = there ? 1.0F : -0.02F, .ended = there};
  }

 private:
  static constexpr int kSide = 7;
  static float seen(int field) { return 2.0F * static_cast<float>(field) / (kSide - 1) - 1.0F; }
  // Rounds, because a stored state may have rounding errors.
  static int field_of(float value) {
    return static_cast<int>(std::lround((value + 1.0F) * 0.5F * (kSide - 1)));
  }
  static bool at_goal(const EnvironmentState& state) {
    return field_of(state.values[0]) == field_of(state.values[2]) &&
           field_of(state.values[1]) == field_of(state.values[3]);
  }
};

}  // namespace

std::unique_ptr<Environment> make_environment(const std::string& name) {
  if (name == "cartpole") return std::make_unique<CartPole>();
  if (name == "grid_world") return std::make_unique<GridWorld>();
  return nullptr;
}

FirstStates::FirstStates(Part part, const std::string& environment, std::int64_t samples)
    : GeneratedSource(part, samples),
      environment_(make_environment(environment)) {
  DISTBELIEF_INVARIANT(environment_ != nullptr);
  spec_.input_type = ElementType::kFloat32;
  spec_.input_shape = {std::int64_t(kObserved)};
  spec_.classes = environment_->actions();
}

void FirstStates::draw(std::uint64_t index, void* input, void* target) const {
  SplitMix64 random = randomness(kFirstStateStream, index);
  const EnvironmentState state = environment_->first(random);
  std::copy(state.values.begin(), state.values.end(), static_cast<float*>(input));
  *static_cast<std::int64_t*>(target) = 0;
}

}  // namespace distbelief::data
