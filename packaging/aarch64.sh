#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the wheel for aarch64 on an x86-64 Debian, and try it there under emulation.
#   bash packaging/aarch64.sh      leaves dist/floodtide-*-manylinux_*_aarch64.whl
# The script makes an aarch64 Debian in build/packaging/aarch64 and runs packaging/wheel.sh in it. QEMU emulates the programs of
# that system. Only the compiler is this machine's own (a cross compiler), because an emulated one is ten times slower.
# Needs root, and a kernel with binfmt_misc. Installs what else is missing with apt-get.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/setup.sh
if [ "$(uname -m)" != x86_64 ] || [ "$(id -u)" -ne 0 ]; then
  echo "aarch64.sh: runs as $(id -un) on $(uname -m); expected root on x86_64" >&2
  exit 2
fi
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
tree=$PWD
work=$tree/build/packaging/aarch64
triplet=aarch64-linux-gnu
host=/x86  # where the aarch64 system sees this machine's files
mkdir -p "$work"

packages="debootstrap qemu-user-static g++-$triplet"
if ! dpkg -s $packages >/dev/null 2>&1; then
  floodtide_say "apt-get install $packages"
  apt-get update -qq
  # shellcheck disable=SC2086  # a list of words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >"$work/apt.log"
fi
formats=/proc/sys/fs/binfmt_misc
[ -e "$formats/register" ] || mount -t binfmt_misc binfmt_misc "$formats"
[ -e "$formats/qemu-aarch64" ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$formats/register"

# Make a minimal aarch64 Debian that reaches the package registries in the way in which this machine does.
bare=$work/bare
if [ ! -f "$work/bare.ok" ]; then
  floodtide_say "a Debian $suite for aarch64"
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | sort -u | grep -v security | head -n 1)
  rm -rf "$bare"
  debootstrap --arch=arm64 --variant=minbase --include=python3,ca-certificates "$suite" "$bare" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 5 "$work/debootstrap.log" >&2; exit 1; }
  cp /etc/resolv.conf /etc/hosts "$bare/etc/"
  cp /etc/apt/apt.conf.d/* "$bare/etc/apt/apt.conf.d/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$bare/etc/ssl/certs/"
  for file in /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf; do
    [ ! -f "$file" ] || cp "$file" "$bare/etc/pip.conf"
  done
  touch "$work/bare.ok"
fi

# Run a command in a copy of that system: in_system ROOT COMMAND...
in_system() {
  local network=()
  readarray -t network < <(env | grep -iE '^(https?_proxy|no_proxy|ssl_cert_file|requests_ca_bundle|pip_[a-z_]+)=')
  # shellcheck disable=SC2016  # $0 is for the inner shell
  unshare -m bash -c 'set -e
    mount --make-rprivate /
    mount --rbind /dev "$0/dev"
    mount -t proc proc "$0/proc"
    mount --rbind /sys "$0/sys"
    [ ! -d "$0'"$host"'" ] || mount --bind -o ro / "$0'"$host"'"
    exec "$@"' "$1" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "${network[@]}" chroot "$@"
}

floodtide_say "wheel"
root=$work/build
rm -rf "$root"
cp -a "$bare" "$root"
mkdir -p "$root$host" "$root/root/tree"
# The loader of this machine's programs, and its cross compiler's libraries, are looked for at these places.
ln -s "$host/lib64" "$root/lib64"
ln -s "$host/usr/lib/x86_64-linux-gnu" "$root/usr/lib/x86_64-linux-gnu"
ln -s "$host/usr/$triplet" "$root/usr/$triplet"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$root/root/tree"
in_system "$root" bash -c 'apt-get update -qq
  apt-get install -y -qq --no-install-recommends dpkg-dev libgomp1 python3-dev python3-venv zlib1g-dev' >"$work/packages.log" 2>&1 ||
  { tail -n 5 "$work/packages.log" >&2; exit 1; }
in_system "$root" env "CC=$host/usr/bin/$triplet-gcc" "CXX=$host/usr/bin/$triplet-g++" \
  CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" bash /root/tree/packaging/wheel.sh
mkdir -p dist
cp "$root"/root/tree/dist/floodtide-*_aarch64.whl dist/

floodtide_say "trial in another copy of the bare system, without compiler and headers"
trial=$work/trial
rm -rf "$trial"
cp -a "$bare" "$trial"
mkdir "$trial/root/trial"
cp packaging/try.sh packaging/try_h5py.py dist/floodtide-*_aarch64.whl "$trial/root/trial/"
# QEMU lacks process_vm_readv, with which MPICH copies between processes.
in_system "$trial" env MPIR_CVAR_CH4_CMA_ENABLE=0 bash -c 'bash /root/trial/try.sh /root/trial/floodtide-*.whl --short'
rm -rf "$root" "$trial"
