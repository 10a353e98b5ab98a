# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by examples/quickstart.sh and tests/run.sh, which source it from the root of the tree. Gives
#   floodtide_system PACKAGE...   see to it that a compiler, the headers and further Debian packages are there
#   floodtide_venv FOLDER         make a virtual environment with a recent pip
#   floodtide_pip ARGUMENT...     run the environment's pip, and say how far compiling is
#   floodtide_say TEXT            a line of progress
# The environment is .venv in the tree, or $FLOODTIDE_VENV.

FLOODTIDE_VENV=${FLOODTIDE_VENV:-$PWD/.venv}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

floodtide_say() { printf '== %s\n' "$*"; }

floodtide_has_hdf5() {
  [ -n "${HDF5_ROOT:-}" ] || command -v h5cc >/dev/null 2>&1 ||
    [ -f /usr/include/hdf5.h ] || [ -f /usr/include/hdf5/serial/hdf5.h ]
}

# Prints the Debian packages that are needed and not there; $@: further ones, PACKAGE=PROGRAM.
floodtide_missing() {
  local item
  c++ --version >/dev/null 2>&1 || [ -n "${CXX:-}" ] || echo g++
  python3 -c 'import ensurepip, venv' 2>/dev/null || python3 -m virtualenv --version >/dev/null 2>&1 || echo python3-venv
  python3 -c 'import os, sysconfig
raise SystemExit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' || echo python3-dev
  floodtide_has_hdf5 || echo libhdf5-dev
  for item in "$@"; do command -v "${item#*=}" >/dev/null 2>&1 || echo "${item%%=*}"; done
}

floodtide_system() {
  if ! command -v python3 >/dev/null 2>&1; then
    echo "setup: python3 is missing; expected Python 3.10 or newer" >&2
    exit 2
  fi
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "setup: $(command -v python3) is $(python3 --version 2>&1); expected Python 3.10 or newer" >&2
    exit 2
  fi
  local missing
  missing=$(floodtide_missing "$@" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    floodtide_say "apt-get install $missing"
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    missing=$(floodtide_missing "$@" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
  fi
  echo "setup: missing on this machine: ${missing% }; install them (Debian: apt-get install ${missing% }) and start again" >&2
  exit 2
}

floodtide_venv() {
  if [ ! -x "$1/bin/python" ]; then
    floodtide_say "virtual environment $1"
    if python3 -c 'import ensurepip, venv' 2>/dev/null; then python3 -m venv "$1"; else python3 -m virtualenv -q "$1"; fi
  fi
  "$1/bin/python" -m pip install -qq --upgrade 'pip>=25.1'
}

# pip hides what a build prints, so that minutes pass in silence. After a failure, the end of it is shown.
floodtide_pip() {
  local log
  log=$(mktemp)
  { "$FLOODTIDE_VENV/bin/python" -m pip "$@" -v 2>&1 || touch "$log.failed"; } | tee "$log" | python3 -uc '
import re, sys, time
first = shown = 0.0
for line in sys.stdin:
    step, now = re.search(r"\[(\d+)/(\d+)\] ", line), time.monotonic()
    if step and not first:
        first = shown = now
    elif step and now > shown + 15:
        done, total, shown = int(step[1]), int(step[2]), now
        left_s = (now - first) * (total - done) / done
        print(f"   compiled {done} of {total} files, about {left_s / 60:.1f} min left")
'
  if [ -e "$log.failed" ]; then
    tail -n 40 "$log" >&2
    rm "$log" "$log.failed"
    return 1
  fi
  rm "$log"
}
