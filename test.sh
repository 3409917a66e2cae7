#!/bin/bash
# Installs, builds and tests. The last line counts passed, failed and skipped tests.
#   ./test.sh            all but the long tests
#   ./test.sh --long     all
#   ./test.sh -R comm    anything else goes to ctest
set -euo pipefail
readonly root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly build=$root/build/release
readonly results=$build/test-results.xml

selection=(-LE '^long$')
packages=(build run test)
arguments=()
for argument in "$@"; do
  case $argument in
    -h | --help)
      sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --long)
      selection=()
      packages+=(long)
      ;;
    *)
      # ctest takes what it does not know for nothing, and would run everything.
      known=$(ctest --help 2>/dev/null || true)  # nothing: it is not installed yet
      option=${argument%%=*}
      if [[ $option == --* && -n $known ]] && ! grep -qE -e "(^|[ ,])${option//[^a-zA-Z-]/.}([] ,=[<]|\$)" <<<"$known"; then
        echo "test.sh: neither this script nor ctest has an option $argument; see ./test.sh --help" >&2
        exit 2
      fi
      arguments+=("$argument")
      ;;
  esac
done

"$root/tools/install_packages.sh" "${packages[@]}"
"$root/tools/build.sh" release

# Tests that want the cores for themselves say RUN_SERIAL. All output is kept: a skip's reason is in it.
rm -f "$results"
status=0
ctest --test-dir "$build" --output-on-failure --output-junit "$results" -j 2 --no-tests=error \
  --test-output-size-passed 1048576 --test-output-size-failed 1048576 \
  "${selection[@]}" "${arguments[@]}" || status=$?
python3 "$root/tools/count_tests.py" --ctest-status "$status" "$results"
