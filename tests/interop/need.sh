# For the scripts beside this file: finds the tools of `tools/install`, and says so when one is missing.
# shellcheck shell=bash

PATH=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.tools/bin:$PATH

# A missing tool skips the test with exit code 77; with CI set it fails it.
need() {
  command -v "$1" >/dev/null && return
  echo "!!! SKIPPED: $1 is missing; run tools/install" >&2
  [ -z "${CI:-}" ] && exit 77
  exit 1
}

fail() {
  echo "$*" >&2
  exit 1
}
