#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The learning-rate study of docs/lab/study.md, from the volume to the report: bash examples/lab/study/run.sh
#
# More than 8 hours on two cores. Killed and started again, it goes on where it was. The results are in runs/study; the report
# is runs/study/report.html. FLOODTIDE_DATA names the folder of the real volumes (default ../shared/data). Without
# them, the confirmation on real EM is left out.
set -euo pipefail
cd "$(dirname "$0")/../../.."
export FLOODTIDE_DATA=${FLOODTIDE_DATA:-../shared/data}
out=runs/study
sample=$FLOODTIDE_DATA/fib25/training_sample2

[ -e "$out/partitions.h5" ] || python examples/lab/study/volume.py "$out"
sweeps=(noise adam momentum warmup optimizers)
if [ -e "$sample/groundtruth.h5" ]; then
  [ -e "$out/real.h5" ] || floodtide partition "$sample/groundtruth.h5:stack" "$out/real.h5:af" \
    --lom-radius 12,12,12 --min-size 1000
  sweeps+=(real large)
else
  echo "no $sample: the confirmation on real EM is left out" >&2
fi
for sweep in "${sweeps[@]}"; do
  floodtide lab sweep "examples/lab/study/$sweep.toml"
done
floodtide lab sweep examples/lab/study/modes-synchronous.toml
# Real ranks, more than there are cores: threads that wait give their core away.
for ranks in 4 16 64; do
  floodtide lab sweep "examples/lab/study/modes-$ranks.toml" --parallel 1
done
floodtide lab study "$out"/modes-* "$out/noise" --target 0.77 --out "$out/modes.html" --figures "$out/figures/modes"
floodtide lab study "$out/noise" "$out/adam" "$out/momentum" --out "$out/report.html" --figures "$out/figures"
for sweep in "${sweeps[@]:3}"; do
  floodtide lab study "$out/$sweep" --figures "$out/figures/$sweep"
done
