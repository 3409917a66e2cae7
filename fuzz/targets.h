#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The fuzz targets, one parser each. A parser may throw Error(kBadInput), as it does for damaged files;
// anything else (another exception, a signal, a sanitizer report, too much memory) is a finding.
namespace distbelief::fuzz {

using Target = void (*)(std::span<const std::uint8_t> input);

void idx(std::span<const std::uint8_t> input);
void cifar(std::span<const std::uint8_t> input);
void jpeg(std::span<const std::uint8_t> input);
void png(std::span<const std::uint8_t> input);
void pnm(std::span<const std::uint8_t> input);
void csv(std::span<const std::uint8_t> input);
void text(std::span<const std::uint8_t> input);
void tar(std::span<const std::uint8_t> input);
void tree(std::span<const std::uint8_t> input);
void slice(std::span<const std::uint8_t> input);
void slice_index(std::span<const std::uint8_t> input);
void packed(std::span<const std::uint8_t> input);
void known_set(std::span<const std::uint8_t> input);
void tables(std::span<const std::uint8_t> input);
void manifest(std::span<const std::uint8_t> input);
void pieces(std::span<const std::uint8_t> input);
void unpack_tar(std::span<const std::uint8_t> input);
void remote_set(std::span<const std::uint8_t> input);
void json_lines(std::span<const std::uint8_t> input);
void run_json(std::span<const std::uint8_t> input);
void numbers(std::span<const std::uint8_t> input);
void hello(std::span<const std::uint8_t> input);
void safetensors(std::span<const std::uint8_t> input);
void architecture(std::span<const std::uint8_t> input);
void job(std::span<const std::uint8_t> input);
void frame(std::span<const std::uint8_t> input);
void store(std::span<const std::uint8_t> input);
void service(std::span<const std::uint8_t> input);

}  // namespace distbelief::fuzz
