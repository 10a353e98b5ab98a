#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set up floodtide in .venv and run its main job on two MPI ranks: train a small network on a synthetic EM
# volume, segment held-out voxels, print the scores and write a report with pictures.
#   bash examples/quickstart.sh [FOLDER]      the run directory; default runs/demo
# As root on Debian, missing packages (compiler, headers) are installed; otherwise they are named.
set -eu
out=${1:-$PWD/runs/demo}
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")/.."
. examples/setup.sh

floodtide_system
floodtide_venv "$FLOODTIDE_VENV"
export PATH="$FLOODTIDE_VENV/bin:$PATH"
floodtide_say "building and installing floodtide"
floodtide_pip install '.[mpi]'
floodtide info
floodtide_say "training, segmenting and scoring on two ranks"
mpiexec -n 2 floodtide demo --out "$out"
floodtide_say "report: $out/report.html"
