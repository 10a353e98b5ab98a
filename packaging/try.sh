#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Try a wheel on a bare Debian, as root: install it without a compiler and run what quickstart runs.
#   bash packaging/try.sh dist/floodtide-*.whl [OPTION]...       options of `floodtide demo`, such as --steps 400
# Run this in a fresh container or chroot: the script refuses a machine that has a compiler or HDF5's headers.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '4p' "$0" >&2; exit 2; }
wheel=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
for program in cc c++ gcc g++ cmake mpiexec h5cc; do
  if command -v "$program" >/dev/null; then echo "try.sh: $program is on this machine; expected a bare one" >&2; exit 2; fi
done
if [ -e /usr/include/hdf5 ] || [ -e /usr/include/zlib.h ]; then echo "try.sh: headers are on this machine; expected a bare one" >&2; exit 2; fi
if ! python3 -c 'import ensurepip' 2>/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
fi
cd "$(mktemp -d)"
started=$(date +%s)
python3 -m venv venv
export PATH=$PWD/venv/bin:$PATH
python -m pip install -qq "$wheel[mpi]"
echo "installed after $(($(date +%s) - started)) s"
floodtide info
python "$here/try_h5py.py"
mpiexec -n 2 floodtide demo --out demo "$@"
test -s demo/report.html
echo "demo finished after $(($(date +%s) - started)) s"
