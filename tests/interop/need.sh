# Included by the scripts in this directory: finds the tools of `tools/install`, and reports a missing one.
# shellcheck shell=bash

PATH=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.tools/bin:$PATH

# A missing tool skips the test with exit code 77, or fails it if CI is set.
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
