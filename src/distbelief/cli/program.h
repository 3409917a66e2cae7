#pragma once

// The whole program, for programs that add their own models:
//
//   int main(int argc, char** argv) {
//     distbelief::register_model("mine", "my network", {}, [](const auto& options, const auto& shape) {
//       return std::make_shared<Mine>(shape.classes);
//     });
//     return distbelief::cli_main(argc, argv);
//   }
//
// Such a program has every command of `distbelief`. Its workers are copies of itself, so they know its
// models.
namespace distbelief {

// Returns the exit code. Call once per process, from main().
int cli_main(int argc, char** argv);

}  // namespace distbelief
