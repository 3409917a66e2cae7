#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// Frames of synthetic speech, [frames, bands]. Every symbol has its own spectrum, lasts several frames, and
// may be followed by silence; all frames have noise. The target lists the symbols in order, numbered from 1
// and padded with zeros, without their times. Silence separates equal neighbours.
class SyntheticSpeech : public GeneratedSource {
 public:
  struct Options {
    std::int64_t samples = 4'000;
    std::int64_t frames = 48;
    std::int64_t bands = 8;
    std::int64_t symbols = 6;
    double noise = 0.3;  // largest change of a band
  };
  static constexpr std::int64_t kMostSymbols = 6;  // per sample
  // Throws Error(kBadInput) for options outside their range.
  SyntheticSpeech(Part part, const Options& options);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  Options options_;
  std::vector<float> spectra_;  // silence first, then each symbol
};

}  // namespace distbelief::data
