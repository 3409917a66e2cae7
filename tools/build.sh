#!/bin/bash
# Configures a preset of CMakePresets.json when needed and builds it: tools/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

(($# > 0)) || { echo "usage: tools/build.sh PRESET [TARGET...]" >&2; exit 2; }
readonly preset=$1 folder=build/$1
shift

# A source that includes torch takes about 1.5 GiB to compile.
jobs_that_fit() {
  local by_memory cores
  by_memory=$(awk '/^MemAvailable:/ { print int($2 / (1.5 * 1024 * 1024)) }' /proc/meminfo)
  cores=$(nproc)
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((by_memory < cores ? by_memory : cores))
}

# Ninja sees changes of CMakeLists.txt by itself, those of the presets it does not.
if [[ ! -e $folder/build.ninja || CMakePresets.json -nt $folder/build.ninja ]]; then
  cmake --preset "$preset"
fi
cmake --build "$folder" --parallel "$(jobs_that_fit)" ${1:+--target "$@"}
