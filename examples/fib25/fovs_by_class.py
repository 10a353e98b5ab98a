# SPDX-License-Identifier: Apache-2.0
"""Fields of view that a training example takes, by the partition class of its centre.

Usage: python fovs_by_class.py PARTITIONS [--per-class N] [--truth]
Floods examples of training_sample2 by the fixed moves with the published network, or (--truth) with
the labels in place of what a network would say. FLOODTIDE_DATA names the data, PARTITIONS the file
that the README's commands write. docs/algorithms.md, "Walkers and the shard plan", has the figures.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

import floodtide as ft

Array = NDArray[np.float32]

FOV, STEP = 33, 8
PATCH = FOV + 2 * STEP
MOVES = [move for move in itertools.product((-STEP, 0, STEP), repeat=3) if any(move)]


def logit(probability: float) -> float:
    """Inverse of the logistic function."""
    return float(np.log(probability / (1 - probability)))


def fovs_of(
    image: Array, labels: Array, network: ft.nn.FFN | None, rng: np.random.Generator
) -> int:
    """Fields of view on one example: a move is made where the canvas has reached 0.9."""
    canvas = np.full(image.shape, logit(0.05), np.float32)
    canvas[(PATCH // 2,) * 3] = logit(0.95)
    made = 0
    for move in [(0, 0, 0), *(MOVES[i] for i in rng.permutation(len(MOVES)))]:
        centre = tuple(PATCH // 2 + step for step in move)
        if canvas[centre] < logit(0.9):
            continue
        box = tuple(slice(c - FOV // 2, c + FOV // 2 + 1) for c in centre)
        if network is None:
            canvas[box] = np.where(labels[box] > 0.5, logit(0.95), logit(0.05))
        else:
            canvas[box] = network.forward(image[box].copy(), canvas[box].copy())
        made += 1
    return made


def main() -> None:
    """Parse the command line, flood, print a line a class and what the class explains."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("partitions", type=Path, help="HDF5 with the dataset af")
    parser.add_argument("--per-class", type=int, default=8)
    parser.add_argument("--truth", action="store_true")
    arguments = parser.parse_args()
    data = os.environ["FLOODTIDE_DATA"]
    sample = f"{data}/fib25/training_sample2"
    network = (
        None if arguments.truth else ft.nn.load(f"{data}/ffn_fib25_checkpoint/model.ckpt-27465036")
    )
    shards = ft.data.Shards(
        ft.data.TrainingVolume(
            f"{sample}/grayscale_maps.h5:raw",
            f"{sample}/groundtruth.h5:stack",
            f"{arguments.partitions}:af",
            box="0:157,0:250,0:250",
        ),
        augmentation=ft.data.Augmentation(permutable_axes=(), reflectable_axes=()),
        patch_size=(PATCH,) * 3,
    )
    with h5py.File(arguments.partitions) as file:
        classes = file["af"][...]
    wanted = sorted(set(np.unique(classes).tolist()) - {255})
    fovs: dict[int, list[int]] = {number: [] for number in wanted}
    rng = np.random.default_rng(0)
    for index in range(len(shards)):
        if all(len(found) >= arguments.per_class for found in fovs.values()):
            break
        found = fovs[int(classes[shards.centre(0, index)])]
        if len(found) < arguments.per_class:
            found.append(fovs_of(*shards.load(0, index), network, rng))
    for number, found in fovs.items():
        print(f"class {number:2d}: {np.mean(found):5.1f} fields of view")
    between = np.var([np.mean(found) for found in fovs.values()])
    within = np.mean([np.var(found) for found in fovs.values()])
    print(f"the class makes {between / (between + within):.0%} of the variance")


if __name__ == "__main__":
    main()
