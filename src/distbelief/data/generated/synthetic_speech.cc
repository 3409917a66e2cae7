#include "distbelief/data/generated/synthetic_speech.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kSpeechStream = 7;
constexpr std::uint64_t kSpectrumStream = 8;
constexpr std::uint64_t kShortest = 3, kSpread = 3;  // a symbol lasts 3 to 5 frames
constexpr std::uint64_t kSilence = 3;                // 0 to 2 frames of silence follow
constexpr std::int64_t kFramesPerSymbol = 8;         // at most

void check_speech(const SyntheticSpeech::Options& options) {
  const std::int64_t least = kFramesPerSymbol * SyntheticSpeech::kMostSymbols;
  if (options.frames >= least && options.bands >= 1 && options.symbols >= 2 && options.symbols <= 1000 &&
      options.noise >= 0)
    return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("synthetic_speech wants at least {} frames, 1 band, 2 to 1000 symbols and noise "
                          "of 0 or more, found {}, {}, {} and {}",
                          least, options.frames, options.bands, options.symbols, options.noise));
}

}  // namespace

SyntheticSpeech::SyntheticSpeech(Part part, const Options& options)
    : GeneratedSource(part, options.samples),
      options_(options) {
  check_speech(options);
  spectra_.assign(static_cast<std::size_t>((options.symbols + 1) * options.bands), 0.0F);
  SplitMix64 random(derive_seed({kSpectrumStream}));
  for (auto value = spectra_.begin() + options.bands; value != spectra_.end(); ++value)
    *value = static_cast<float>(random.uniform());
  spec_.input_type = ElementType::kFloat32;
  spec_.input_shape = {options.frames, options.bands};
  spec_.target_shape = {kMostSymbols};
  spec_.classes = options.symbols + 1;
}

void SyntheticSpeech::draw(std::uint64_t index, void* input, void* target) const {
  SplitMix64 random = randomness(kSpeechStream, index);
  auto* symbols = static_cast<std::int64_t*>(target);
  std::fill_n(symbols, kMostSymbols, std::int64_t{0});
  std::vector<std::int64_t> said(static_cast<std::size_t>(options_.frames), 0);
  const auto count = static_cast<std::int64_t>(1 + random.below(kMostSymbols));
  std::size_t frame = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    symbols[i] = static_cast<std::int64_t>(1 + random.below(static_cast<std::uint64_t>(options_.symbols)));
    if (i > 0 && symbols[i] == symbols[i - 1]) ++frame;  // separates two equal symbols
    for (std::uint64_t left = kShortest + random.below(kSpread); left > 0; --left) said[frame++] = symbols[i];
    frame += random.below(kSilence);
  }
  auto* value = static_cast<float*>(input);
  for (const std::int64_t symbol : said)
    for (std::int64_t band = 0; band < options_.bands; ++band)
      *value++ = spectra_[static_cast<std::size_t>(symbol * options_.bands + band)] +
                 static_cast<float>(options_.noise * (2.0 * random.uniform() - 1.0));
}

}  // namespace distbelief::data
