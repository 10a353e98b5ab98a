# SPDX-License-Identifier: Apache-2.0
"""The training of a flood-filling network written again, with PyTorch in float64: moves, canvases, clipping and Adam.

`python tests/golden/flood_training.py --updates 3000 --seeds 0,1,2` trains both from the same weights on the same
examples and prints how their losses differ. Only the examples come from floodtide (`ft.data.Shards`). Rounding grows
from update to update, and where it moves a probability across the threshold of a move, the trainings part.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "python")]

import training_volume  # noqa: E402

from floodtide import config, nn  # noqa: E402
from floodtide.data import Shards  # noqa: E402
from floodtide.train import Trainer  # noqa: E402
from golden import oracle  # noqa: E402
from golden.case import Array  # noqa: E402

WALKERS = 8
RATE = 3e-4
CLIP = 0.7
_64 = (1 << 64) - 1
_32 = (1 << 32) - 1


def philox(seed: int, stream: int) -> Iterator[int]:
    """Yield 64-bit numbers of Philox4x32-10 (Salmon et al. 2011): the first two words of each block."""
    for counter in range(1 << 62):
        x = [counter & _32, counter >> 32, stream & _32, stream >> 32]
        key = [seed & _32, seed >> 32]
        for _ in range(10):
            first, second = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
            x = [
                (second >> 32) ^ x[1] ^ key[0],
                second & _32,
                (first >> 32) ^ x[3] ^ key[1],
                first & _32,
            ]
            key = [(key[0] + 0x9E3779B9) & _32, (key[1] + 0xBB67AE85) & _32]
        yield x[1] << 32 | x[0]


def _mix(x: int) -> int:
    """Finaliser of SplitMix64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _64
    return x ^ (x >> 31)


def _stream(purpose: int, a: int, b: int) -> int:
    return _mix((_mix((_mix((purpose + 0x9E3779B97F4A7C15) & _64) + a) & _64) + b) & _64)


def moves_of(deltas: Sequence[int], seed: int, walker: int, index: int) -> list[tuple[int, ...]]:
    """Return the moves of an example of the first epoch: the centre, and all others in a random order."""
    steps = np.array(np.meshgrid(*[(-1, 0, 1)] * 3, indexing="ij")).reshape(3, -1).T
    offsets = [(0, 0, 0)]
    offsets += [o for o in map(tuple, (steps * np.array(deltas)).tolist()) if o not in offsets]
    bits = philox(seed, _stream(0x6D6F766573, _stream(walker, 0, 0), index))
    for left in range(len(offsets) - 1, 1, -1):
        excess = (1 << 64) % left
        drawn = next(value for value in bits if value >= excess)
        other = 1 + drawn % left
        offsets[left], offsets[other] = offsets[other], offsets[left]
    return offsets


class Walker:
    """A walker: the example that it floods, its canvas of logits, and the moves that are left."""

    def __init__(
        self, number: int, shards: Shards, fov: Sequence[int], deltas: Sequence[int]
    ) -> None:
        self._number, self._shards, self._deltas = number, shards, deltas
        self._radius = np.array(fov) // 2
        self._index = -1
        self._moves: list[tuple[int, ...]] = []

    def _begin(self) -> None:
        self._index += 1
        self._image, self._labels = self._shards.load(self._number, self._index)
        self._middle = np.array(self._image.shape) // 2
        self._canvas = np.full(self._image.shape, np.log(0.05 / 0.95))
        self._canvas[tuple(self._middle)] = np.log(0.95 / 0.05)
        self._moves = moves_of(self._deltas, self._shards.seed, self._number, self._index)

    def advance(self) -> tuple[Array, Array, Array]:
        """Return image, logits and labels of the next field of view whose centre is object with 0.9 or more."""
        while True:
            if not self._moves:
                self._begin()
            centre = self._middle + np.array(self._moves.pop(0))
            if self._canvas[tuple(centre)] >= np.float32(np.log(0.9 / 0.1)):
                break
        self._box = tuple(
            slice(c - r, c + r + 1) for c, r in zip(centre, self._radius, strict=True)
        )
        return self._image[self._box], self._canvas[self._box], self._labels[self._box]

    def update(self, logits: Array) -> None:
        """Write the new logits of the field of view to the canvas."""
        self._canvas[self._box] = logits


def losses_of_twin(model: nn.FFN, shards: Shards, updates: int) -> Array:
    """Train with PyTorch and return the loss of each update."""
    oracle.use_one_thread()
    tensors = oracle.tensors_of(model.state_dict())
    adam = torch.optim.Adam(list(tensors.values()), lr=RATE)
    walkers = [Walker(n, shards, model.fov, model.deltas) for n in range(WALKERS)]
    found = []
    for _ in range(updates):
        adam.zero_grad()
        total = 0.0
        for walker in walkers:
            image, before, labels = walker.advance()
            logits = oracle.ffn_logits(tensors, image, before)
            loss = oracle.ffn_loss(logits, labels) / WALKERS
            loss.backward()  # type: ignore[no-untyped-call]
            walker.update(logits.detach().numpy())
            total += float(loss.detach())
        torch.nn.utils.clip_grad_value_(list(tensors.values()), CLIP)
        adam.step()
        found.append(total)
    return np.array(found)


def both(folder: Path, updates: int, seed: int) -> tuple[Array, Array]:
    """Return the losses of floodtide and of its twin, from the same weights on the same examples."""
    document: dict[str, Any] = training_volume.document(
        folder,
        run={"dir": str(folder / f"run-{seed}"), "seed": seed, "threads": 1},
        model={"depth": 3},
        training={"steps": updates, "walkers": WALKERS},
        optimizer={"name": "adam", "lr": RATE},
    )
    configuration = config.from_dict(document)
    assert configuration.training.clip == CLIP
    with Trainer.from_config(configuration) as trainer:
        model = nn.FFN(
            **{key: getattr(trainer.model, key) for key in ("depth", "fov", "deltas", "features")}
        )
        model.load_state_dict(trainer.model.state_dict())
        shards = trainer.data
        twin = losses_of_twin(model, shards, updates)
        own = np.array([trainer.step().loss for _ in range(updates)])
    return own, twin


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--updates", type=int, default=3000)
    arguments.add_argument("--seeds", default="0,1,2")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        training_volume.write_volume(Path(name))
        for seed in map(int, given.seeds.split(",")):
            own, twin = both(Path(name), given.updates, seed)
            apart = np.abs(own / twin - 1)
            print(f"seed {seed}: largest relative difference of 300 losses {apart[:300].max():.1e}")
            for start in range(0, given.updates, 500):
                part = slice(start, start + 500)
                means = f"{own[part].mean():.4f}, of the twin {twin[part].mean():.4f}"
                print(f"  from update {start + 1} on: mean loss {means}")


if __name__ == "__main__":
    main()
