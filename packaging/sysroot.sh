#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make a folder with the C library, kernel headers, zlib and OpenMP runtime of Debian 11 (glibc 2.31), and this machine's headers of
# libstdc++, for GCC's option --sysroot.
#   bash packaging/sysroot.sh FOLDER
# apt downloads the packages, checks their signatures and needs neither root nor a changed list of sources.
# Environment: FLOODTIDE_DEBIAN_11 (default: this machine's mirror), the mirror to use.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '5p' "$0" >&2; exit 2; }
mkdir -p "$1"
sysroot=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mirror=${FLOODTIDE_DEBIAN_11:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -n 1)}
mkdir -p parts lists/partial cache/archives/partial
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bullseye main" >parts/debian.list
own=(-q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists"
  -o "Dir::Cache=$work/cache" -o Dir::State::status=/dev/null)
{ apt-get "${own[@]}" update &&
  apt-get "${own[@]}" download libc6 libc6-dev linux-libc-dev libgcc-s1 libgomp1 gcc-10-base zlib1g zlib1g-dev; } >apt.log 2>&1 ||
  { cat apt.log >&2; exit 1; }
for package in *.deb; do dpkg-deb -x "$package" "$sysroot"; done

# Links to absolute paths would leave the folder.
find "$sysroot" -type l -lname '/*' -printf '%l\t%p\n' | while IFS=$'\t' read -r target link; do ln -sfn "$sysroot$target" "$link"; done
triplet=$(gcc -print-multiarch)
libraries=$sysroot/usr/lib/$triplet
ln -sf libgomp.so.1 "$libraries/libgomp.so"
version=$(gcc -dumpversion)
for folder in include "include/$triplet"; do
  mkdir -p "$sysroot/usr/$folder/c++"
  ln -sfn "/usr/$folder/c++/$version" "$sysroot/usr/$folder/c++/$version"
done
