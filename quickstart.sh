#!/bin/bash
# From a fresh clone to a trained model: installs the Debian packages, builds, and trains the default job, a
# CNN on Fashion-MNIST, with 2 workers. Arguments go to `distbelief train`: ./quickstart.sh --set train.epochs=1
set -euo pipefail
readonly root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly program=$root/build/release/bin/distbelief
run_dir=$root/runs/quickstart-$(date +%Y%m%d-%H%M%S)

case ${1:-} in
  -h | --help)
    echo "usage: ./quickstart.sh [ARGUMENT of \"distbelief train\"]..."
    exit 0
    ;;
esac

# What the caller names replaces our choice.
workers=(--workers 2)
arguments=("$@")
for ((i = 0; i < $#; ++i)); do
  case ${arguments[i]} in
    --workers | --workers=* | --hosts | --hosts=*) workers=() ;;
    --run-dir=*) run_dir=$(realpath -m "${arguments[i]#*=}"); unset "arguments[i]" ;;
    --run-dir)
      ((i + 1 < $#)) || { echo "quickstart: --run-dir wants a folder" >&2; exit 2; }
      run_dir=$(realpath -m "${arguments[i + 1]}")
      unset "arguments[i]" "arguments[++i]"
      ;;
  esac
done

"$root/tools/install_packages.sh" build run
"$root/tools/build.sh" release distbelief

trap 'exit 130' INT  # the program ends its workers itself; this only skips what follows
"$program" train "${workers[@]}" --run-dir "$run_dir" "${arguments[@]}"

# As short as they can be typed from here.
shown_program=${program#"$PWD"/} shown_run=${run_dir#"$PWD"/}
cat <<END

The run folder, with the trained model: $run_dir

To try next:
  $shown_program eval $shown_run
  $shown_program resume $shown_run --set train.epochs=7    # goes on from there
  $shown_program train --help
  $root/test.sh

examples/jobs has job files to start from; docs/ describes them, and how it all works.
END
