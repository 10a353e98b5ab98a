#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Try a wheel on a bare Debian, as root: install it without a compiler and run what quickstart runs.
#   bash packaging/try.sh dist/floodtide-*.whl [OPTION]...       options of `floodtide demo`, such as --steps 400
#   bash packaging/try.sh dist/floodtide-*.whl --short           a few steps of a tiny network instead, for slow machines
# Run this in a fresh container or chroot: the script refuses a machine that has a compiler or HDF5's headers.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '4,5p' "$0" >&2; exit 2; }
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
if [ "${1:-}" = --short ]; then
  floodtide lab synth volume.h5 --shape 48,48,48
  floodtide partition volume.h5:labels classes.h5:af --lom-radius 8,8,8 --min-size 100
  cat >short.toml <<'EOF'
[run]
dir = "demo"
[[data.volumes]]
name = "volume"
image = "volume.h5:raw"
labels = "volume.h5:labels"
partitions = "classes.h5:af"
[model]
depth = 2
features = 8
fov = [17, 17, 17]
deltas = [4, 4, 4]
[training]
steps = 10
walkers = 2
[segment]
image = "volume"
checkpoint = "demo"
EOF
  mpiexec -n 2 floodtide train short.toml
  floodtide segment short.toml --out demo.h5:segmentation
  floodtide evaluate demo.h5:segmentation volume.h5:labels
  floodtide report demo
else
  mpiexec -n 2 floodtide demo --out demo "$@"
fi
test -s demo/report.html
echo "finished after $(($(date +%s) - started)) s"
