#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many labels does a network need? Trains evening.toml for 400 steps on boxes of its training part, of three sizes and
# places, and on all of it, and scores sections 126 to 189 of training_sample2 (docs/your_volume.md). An hour on one core.
#
#   FLOODTIDE_DATA=... bash examples/fib25/how_many_labels.sh FOLDER
set -euo pipefail
sample=$FLOODTIDE_DATA/fib25/training_sample2
config=$(dirname "$(realpath "$0")")/../evening.toml
mkdir -p "$1"
cd "$1"
to() { floodtide convert "$@" --voxel-nm "$from" --resample-nm "$into" >/dev/null; }
from=10,10,10 into=20,20,20
[ -e evening.h5 ] || {
  to "$sample/grayscale_maps.h5:raw" evening.h5:raw
  to "$sample/groundtruth.h5:stack" evening.h5:labels --labels
}
from=20,20,20 into=10,10,10
greys="--set augmentation.gain=0 --set augmentation.offset=0 --set augmentation.gamma=0 --set augmentation.noise=0"
greys+=" --set augmentation.faint_object=0"
score() {  # score <name> <seed> <box of 20 nm>: train, segment and evaluate, unless that is done
  [ -e "$1.json" ] && return
  floodtide train "$config" --set "run.dir=$1" --set "run.seed=$2" --set "data.volumes.0.box=$3" \
    --set training.steps=400 --set validation.every=400 $greys >"$1.log" 2>&1
  floodtide predict "$1" evening.h5:raw "$1.h5:affinities" --box 63:95,0:125,0:125 >>"$1.log"
  floodtide agglomerate "$1.h5:affinities" "$1.coarse.h5:segments" --method mean --threshold 0.5 --small-size 0 >>"$1.log"
  to "$1.coarse.h5:segments" "$1.fine.h5:segments" --labels
  floodtide evaluate "$1.fine.h5:segments" "$sample/groundtruth.h5:stack" --box 126:190,0:250,0:250 --json >"$1.part"
  mv "$1.part" "$1.json"
}
for seed in 1 2 3; do  # boxes at two opposite corners, and in the middle
  case $seed in
    1) boxes="0:32,0:38,0:39 0:32,0:54,0:54 0:40,0:84,0:84" ;;
    2) boxes="28:60,87:125,86:125 28:60,71:125,71:125 20:60,41:125,41:125" ;;
    3) boxes="14:46,43:81,43:82 14:46,35:89,35:89 10:50,20:104,20:104" ;;
  esac
  n=0
  for box in $boxes 0:60,0:125,0:125; do score "size$((n += 1))-$seed" "$seed" "$box"; done
done
python3 - <<'END'
import json
for size, share in enumerate(("5 %", "10 %", "30 %", "100 %"), start=1):
    errors = [json.load(open(f"size{size}-{seed}.json"))["all_adapted_rand_error"] for seed in (1, 2, 3)]
    print(share, "of the labels:", ", ".join(f"{error:.3f}" for error in errors))
END
