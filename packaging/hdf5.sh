#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build HDF5 as a static library for the wheel, with zlib as its only dependency. Debian's own library would bring
# libcurl, OpenSSL, Kerberos and LDAP into the wheel.
#   bash packaging/hdf5.sh PREFIX      install headers, libhdf5.a and the licence into PREFIX
# The source is Debian's source package, patches included. apt downloads it, checks its signature and needs neither root
# nor a changed list of sources. Needs apt-get, dpkg-source (dpkg-dev), a C compiler, CMake, Ninja and zlib's headers.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '5p' "$0" >&2; exit 2; }
for program in apt-get dpkg-source cmake ninja; do
  command -v "$program" >/dev/null || { echo "hdf5.sh: $program is missing; expected Debian with dpkg-dev, CMake and Ninja" >&2; exit 2; }
done
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work"/{parts,lists/partial,cache/archives/partial,build}
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -f "$file" ] || continue
  case $file in
    *.sources) grep -q debian "$file" && sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/$(basename "$file")" ;;
    *.list) { grep '^deb .*debian' "$file" || true; } | sed 's/^deb /deb-src /' >"$work/parts/$(basename "$file")" ;;
  esac
done
own=(-q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache")
cd "$work"
{ apt-get "${own[@]}" update && apt-get "${own[@]}" source --download-only hdf5; } >apt.log 2>&1 || { cat apt.log >&2; exit 1; }
dpkg-source --extract hdf5_*.dsc source >>apt.log 2>&1 || { cat apt.log >&2; exit 1; }

# Without embedded information, and with other names of the sources, the library contains no path of the build machine.
# HDF5's configuration writes files into the current folder and expects to find them in the build folder.
cd build
cmake ../source -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=$prefix" -DBUILD_SHARED_LIBS=OFF \
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF \
  -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_UTILS=OFF -DHDF5_BUILD_HL_LIB=OFF -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_BUILD_FORTRAN=OFF \
  -DHDF5_ENABLE_EMBEDDED_LIBINFO=OFF "-DCMAKE_C_FLAGS=-ffile-prefix-map=$work=." >configure.log 2>&1 ||
  { cat configure.log >&2; exit 1; }
cmake --build . >build.log 2>&1 || { tail -n 40 build.log >&2; exit 1; }
cmake --install . >/dev/null
install -D -m 644 ../source/COPYING "$prefix/notices/hdf5-COPYING"
