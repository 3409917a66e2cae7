#!/bin/bash
# Installs what is missing of the given groups of packages.txt: tools/install_packages.sh build run test
set -euo pipefail
readonly root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  echo "install_packages: $*" >&2
  exit 1
}

packages_of() {
  awk -v wanted=" $* " '
    /^\[/ { group = substr($0, 2, index($0, "]") - 2); known[group] = 1; next }
    /^[^#]/ && index(wanted, " " group " ") { print $1 }
    END {
      count = split(wanted, names, " ")
      for (i = 1; i <= count; ++i) if (!(names[i] in known)) {
        print "install_packages: packages.txt has no group [" names[i] "]" > "/dev/stderr"
        exit 1
      }
    }' "$root/packages.txt"
}

# Neither installed nor part of what is: a nodejs from elsewhere has npm in it, and does not suffer Debian's beside it.
missing_of() {
  local present
  present=$(dpkg-query -W -f '${db:Status-Status} ${Package}, ${Provides}\n' |
    sed -n 's/^installed //p' | tr ',' '\n' | awk 'NF { print $1 }') || true
  comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$present")
}

# Quiet unless it fails; apt's whole output is then what one wants to see.
quietly() {
  local status=0
  "$@" >"$log" 2>&1 || status=$?
  ((status == 0)) && return
  cat "$log" >&2
  fail "\"$*\" ended with status $status; its output is above"
}

(($# > 0)) || fail "wanted group names of packages.txt, for example: build run test"
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  fail "no apt-get here: this needs Debian 12 or a relative; see packages.txt for what to install by hand"

mapfile -t packages < <(packages_of "$@")
((${#packages[@]} > 0)) || fail "nothing to install for: $*"
mapfile -t missing < <(missing_of "${packages[@]}")
((${#missing[@]} > 0)) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    fail "not root, and no sudo. As root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=120)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
if ((EUID != 0)); then sudo -v; fi  # asks for a password now, not into the log
quietly "${apt[@]}" update
quietly "${apt[@]}" install --no-install-recommends "${missing[@]}"
