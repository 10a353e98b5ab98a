#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build with sanitizers, and run the tests under them; fails at the first finding.
#   bash tests/sanitize.sh              both
#   bash tests/sanitize.sh address      address and undefined behaviour: C++ unit tests; C++ tests on 2 ranks of each MPI
#                                       family that is found; readers of files that the fuzzer has damaged; calls of
#                                       the core with wrong arguments; Python tests that train and reduce on ranks
#   bash tests/sanitize.sh thread       data races: C++ unit tests of what runs several threads, with threads as ranks
# Needs what tests/run.sh has installed (its environment on the path). Environment: JOBS, compilers at once (default 1: some
# files take 2 GB each); FLOODTIDE_OPENMPI_ROOT, prefix of a second MPI; FUZZ_TRIALS and FUZZ_SEED, of the damaged files;
# CORE_CALLS, of functions of the compiled core.
set -eu
cd "$(dirname "$0")/.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
which=${1:-address thread}

build() {
  mkdir -p build
  cmake --preset "$1" -DFLOODTIDE_OPENMPI_ROOT="${FLOODTIDE_OPENMPI_ROOT:-}" >"build/$1.log" || { cat "build/$1.log"; exit 1; }
  nice cmake --build --preset "$1" -j "${JOBS:-1}" >"build/$1.log" || { cat "build/$1.log"; exit 1; }
}

variable() { sed -n "s/^$1:[A-Z]*=//p" build/asan/CMakeCache.txt; }

address() {
  build asan
  export LSAN_OPTIONS="suppressions=$PWD/tests/leaks.supp"  # unit tests read damaged files, too
  echo "== address, undefined: C++ unit tests"
  OMP_NUM_THREADS=2 build/asan/tests/cpp/floodtide_unit_tests --gtest_brief=1 --gtest_filter='-*DeathTest*'
  # The search for leaks writes to the standard error that death tests compare.
  ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=2 build/asan/tests/cpp/floodtide_unit_tests --gtest_brief=1 --gtest_filter='*DeathTest*'
  local family
  for family in $(variable FLOODTIDE_MPI_FAMILIES | tr ';' ' '); do
    echo "== address, undefined: C++ tests on 2 ranks of $family"
    # MPI libraries and launchers keep memory until the process ends, so leaks are looked for in the unit tests alone.
    ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 "$(variable "FLOODTIDE_MPI_${family}_LAUNCHER")" -n 2 \
      build/asan/tests/cpp/mpi/floodtide_mpi_tests "build/asan/cpp/src/comm/_mpi_$family.so" \
      "$(variable "FLOODTIDE_MPI_${family}_LIBRARY")" 2 --gtest_brief=1
  done
  echo "== address, undefined: readers of damaged files"
  local damaged=build/asan/damaged
  rm -rf "$damaged"
  python tests/fuzz/run.py --trials "${FUZZ_TRIALS:-2000}" --seed "${FUZZ_SEED:-1}" --write "$damaged"
  find "$damaged" -mindepth 2 -type f -not -path "$damaged/sample/*" -print0 |
    ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=2048 xargs -0 \
      build/asan/tests/cpp/floodtide_fuzz_readers build/asan/cpp/src/data/_hdf5_check "$damaged/sample" >build/asan/damaged.log ||
    { echo "after $(tail -n 1 build/asan/damaged.log)"; exit 1; }
  echo "   $(wc -l <build/asan/damaged.log) files read or refused"
  echo "== address, undefined: calls of the core with other arguments than it expects; Python on ranks"
  local tree=build/asan/tree
  rm -rf "$tree"
  cmake --install build/asan --component python --prefix "$tree" >/dev/null
  (cd python && find floodtide \( -name '*.so' -o -name _hdf5_check \) -prune -o -type f -print0 | xargs -0 cp --parents -t "../$tree")
  # Python keeps memory until the process ends, too. Its own libraries load the sanitizer late unless it is preloaded.
  local preload
  preload="$(c++ -print-file-name=libasan.so) $(c++ -print-file-name=libstdc++.so)"
  LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:max_allocation_size_mb=4096 OMP_NUM_THREADS=1 PYTHONPATH="$tree" \
    python tests/fuzz/core_calls.py --sanitized --calls "${CORE_CALLS:-40000}" --seed "${FUZZ_SEED:-1}" >build/asan/calls.log ||
    { echo "after $(tail -n 2 build/asan/calls.log)"; exit 1; }
  LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 \
    OMP_NUM_THREADS=1 PYTHONPATH="$tree" python -m pytest -q -p no:cacheprovider tests/python/mpi/test_collectives.py \
    tests/python/mpi/test_train_ranks.py tests/python/mpi/test_engine.py
}

thread() {
  build tsan
  echo "== thread: C++ unit tests of what runs several threads"
  OMP_NUM_THREADS=2 build/tsan/tests/cpp/floodtide_unit_tests --gtest_brief=1 --gtest_filter='*Threads*:*ThreadRanks*:*Allreduce*:*RanksAndCount*:*Reducer*:*ExactSum*:*Watchdog*:*Timeline*:*Prefetcher*:*Hdf5File*:*TrainerTest*:*Checkpoint*:*PartialAverage*:*Validation*:NetworkUses.*:Pool.*:SharedNetworks.*-*DeathTest*'
  echo "== thread: random programs of threads that share networks"
  FLOODTIDE_PROGRAMS=200 OMP_NUM_THREADS=2 build/tsan/tests/cpp/floodtide_unit_tests --gtest_brief=1 --gtest_filter='ThreadPrograms.*'
}

for one in $which; do
  case $one in
    address | thread) "$one" ;;
    *) echo "sanitize.sh: '$one', expected address or thread" >&2; exit 2 ;;
  esac
done
echo "== no findings"
