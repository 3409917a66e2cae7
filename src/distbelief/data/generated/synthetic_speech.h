#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// Frames of a made-up speech: every symbol has a spectrum of its own, lasts some frames, and is followed by
// none or some of silence; all frames have noise. Input [frames, bands]. The target is the symbols in order,
// from 1 on, and then zeros: where they lie in time is not told. Symbols may be said twice in a row, then
// with silence between.
class SyntheticSpeech : public GeneratedSource {
 public:
  struct Options {
    std::int64_t samples = 4'000;
    std::int64_t frames = 48;
    std::int64_t bands = 8;
    std::int64_t symbols = 6;
    double noise = 0.3;  // the most that a band is changed
  };
  static constexpr std::int64_t kMostSymbols = 6;  // in a sample
  // Throws Error(kBadInput) for options outside their range.
  SyntheticSpeech(Part part, const Options& options);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  Options options_;
  std::vector<float> spectra_;  // of silence and each symbol
};

}  // namespace distbelief::data
