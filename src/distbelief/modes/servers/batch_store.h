#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "distbelief/compute/lbfgs.h"

namespace distbelief::modes {

// Where the vectors of a batch method are, and where its work is handed out: on parameter servers, or in this
// process. Used by one thread. Blocks; throws Error.
class BatchStore : public compute::VectorStore {
 public:
  struct Opening {
    std::span<const float> point{};  // the first one, unless there is one already
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parameters{};  // begin and count of each
    std::int64_t portions = 1;                                          // that the batch is cut into
    std::int64_t evaluations = 1;                                       // most of them
    std::int64_t vectors = 1;
  };
  virtual void open(const Opening& opening) = 0;

  struct Work {
    enum class Kind {
      kPortion,     // a gradient
      kCoordinate,  // the evaluation is complete: advance() is wanted
      kEnd,         // there is nothing more to do
    };
    Kind kind = Kind::kEnd;
    std::int64_t evaluation = 0;
    std::int64_t portion = 0;
  };
  // `announce` hears of portions in the order in which they will come, as soon as they are known.
  virtual Work next(const std::function<void(std::int64_t)>& announce) = 0;
  // The point of the present evaluation.
  virtual void fetch(std::span<float> point) = 0;

  // The result of a portion.
  struct Portion {
    std::int64_t evaluation = 0;
    std::int64_t portion = 0;
    std::int64_t samples = 0;
    std::int64_t batch_samples = 0;  // of all portions
    double loss = 0;                 // the mean over its samples; may be infinite
    std::span<const float> gradient{};
  };
  virtual void add(const Portion& portion) = 0;

  // The coordinator's knowledge after so many evaluations.
  struct Coordinator {
    std::int64_t evaluation = 0;
    std::vector<double> numbers{};
    bool ends = false;
  };
  virtual Coordinator coordinator() = 0;
  // It has done its work of an evaluation.
  virtual void advance(const Coordinator& coordinator) = 0;

  // This worker pauses: what it has not begun goes to others. Gives how many portions that were announced
  // will not come. Nothing: there are no others.
  virtual std::optional<std::int64_t> rest() { return std::nullopt; }
  virtual void wake() {}  // it goes on after that
};

}  // namespace distbelief::modes
