# SPDX-License-Identifier: Apache-2.0
"""Score trainings at 20 nm on three parts of training_sample2 that they have not seen, and on gala_fib.

    FLOODTIDE_DATA=... python examples/fib25/folds.py FOLDER CONFIG.toml RUN [RUN ...] [--set segment.KEY=VALUE ...]

The training of ffn_evening.toml sees z and y 0 to 149. The folds lie 16 voxels away or farther, over two axes: "z", on
which the settings were chosen, "y", and "zy". "Inside" leaves out 16 voxels at the faces of the volume.

The truth is cut into connected pieces in each part, so that an object that leaves the part and returns is no mistake.
Boundaries of gala_fib have no label: they are left out, and once filled with the nearest object.

`floodtide segment CONFIG.toml` segments with each run. What is in FOLDER already is not computed again. Prints a table
with the trivial answers, and writes FOLDER/scores.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, sparse

from floodtide import data

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """A box that is scored, and whether its unlabelled voxels are filled with the nearest object."""

    name: str
    box: str
    filled: bool = False


@dataclass(frozen=True)
class Sample:
    """A volume, the voxels along an axis that the networks see as one, and settings of `floodtide segment`."""

    folder: str
    merged: int
    settings: tuple[str, ...]
    parts: tuple[Part, ...]

    def file(self, name: str) -> str:
        return f"{os.environ['FLOODTIDE_DATA']}/{self.folder}/{name}"

    @property
    def image(self) -> str:
        return self.file("grayscale_maps.h5:raw")

    def sizes(self, to: int) -> tuple[str, ...]:
        """Return the options of `floodtide convert` for voxels of `to` nm, from the other size."""
        sizes = {NM // self.merged, NM}
        before = (sizes - {to} or {to}).pop()
        return ("--voxel-nm", f"{before},{before},{before}", "--resample-nm", f"{to},{to},{to}")


SAMPLES = (
    Sample(
        "fib25/training_sample2",
        2,
        (),
        (
            Part("z", "166:250,0:150,0:250"),
            Part("y", "0:150,166:250,0:250"),
            Part("zy", "166:250,166:250,0:250"),
            Part("z, inside", "166:234,16:150,16:234"),
            Part("y, inside", "16:150,166:234,16:234"),
            Part("zy, inside", "166:234,166:234,16:234"),
        ),
    ),
    Sample(
        "gala_fib/train",
        1,
        ("segment.mean=148.22", "segment.std=55.28"),
        (Part("gala_fib", "0:50,0:100,0:200"), Part("gala_fib, filled", "0:50,0:100,0:200", True)),
    ),
)
FOLDS = ("z", "y", "zy")
NM = 20  # of a voxel of the networks; that of gala_fib is not known, and taken for 20
SCORES = {
    "all_adapted_rand_error": "Rand error",
    "all_voi_split": "VOI split",
    "all_voi_merge": "VOI merge",
    "run_length": "run length",
}


def run(log: Path, *words: str) -> dict[str, Any]:
    """Run a command of floodtide, unless its result is there. Return its JSON object."""
    if not log.exists():
        print("floodtide", *words, flush=True)
        done = subprocess.run(["floodtide", *words, "--json"], check=True, stdout=subprocess.PIPE)
        log.write_bytes(done.stdout)
    return dict(json.loads(log.read_text()))


def pieces(labels: Labels) -> NDArray[np.uint64]:
    """Return labels (z, y, x) whose connected pieces (by faces) have ids of their own; 0 stays 0."""
    index = np.arange(labels.size).reshape(labels.shape)
    pairs = []
    for axis in range(3):
        size = labels.shape[axis]
        first, second = (np.take(index, range(n, size - 1 + n), axis).ravel() for n in (0, 1))
        same = labels.ravel()[first] == labels.ravel()[second]
        pairs.append((first[same], second[same]))
    rows, columns = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    graph = sparse.coo_matrix((np.ones(len(rows), bool), (rows, columns)), (labels.size,) * 2)
    found = sparse.csgraph.connected_components(graph, directed=False)[1].reshape(labels.shape)
    return np.where(labels > 0, found + 1, 0).astype(np.uint64)


def truth_of(sample: Sample, part: Part, folder: Path) -> str:
    """Write the truth of a part, cut into pieces, in a volume of zeros. Return its name."""
    path = folder / f"truth {part.name}.h5"
    if not path.exists():
        volume = data.Volume(sample.file("groundtruth.h5:stack"))
        box = data.parse_box(part.box)
        assert box is not None  # not the whole volume
        start, size = box
        labels = np.maximum(volume.read((start, size)).astype(np.int64), 0)
        if part.filled:
            nearest = ndimage.distance_transform_edt(labels == 0, return_indices=True)[1]
            labels = labels[tuple(nearest)]
        whole = np.zeros(volume.shape, np.uint64)
        whole[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))] = pieces(labels)
        data.write_volume(path, {"labels": whole})
    return f"{path}:labels"


def segmented(sample: Sample, config: str, network: Path, settings: list[str], stem: str) -> str:
    """Segment a whole volume with a network. Return the name of the segmentation, in the voxels of the image."""
    folder = Path(stem).parent
    image, made, name = (
        f"{folder}/image.h5:raw",
        f"{stem}.coarse.h5:segments",
        f"{stem}.h5:segments",
    )
    run(folder / "image.json", "convert", sample.image, image, *sample.sizes(NM))
    settings = [
        f"segment.checkpoint={network}",
        f"segment.image={image}",
        *sample.settings,
        *settings,
    ]
    sets = [word for text in settings for word in ("--set", text)]
    run(Path(f"{stem}.coarse.json"), "segment", config, "--out", made, *sets)
    run(Path(f"{stem}.json"), "convert", made, name, "--labels", *sample.sizes(NM // sample.merged))
    return name


def scores_of(sample: Sample, part: Part, segmentation: str, stem: str) -> dict[str, Any]:
    """Return the scores of a segmentation in a part, and of the trivial answers."""
    size = ",".join([str(NM // sample.merged)] * 3)
    truth = truth_of(sample, part, Path(stem).parent)
    lengths = ("--skeletons", "50", "--voxel-nm", size)
    words = (segmentation, truth, "--box", part.box, "--image", sample.image, *lengths)
    found = run(Path(f"{stem} {part.name}.json"), "evaluate", *words)
    found["run_length"] = found["run_lengths"]["normalised"]
    return found


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("config", help="configuration of the trainings, with [segment]")
    arguments.add_argument("runs", nargs="+", type=Path, help="run directories")
    arguments.add_argument("--set", action="append", default=[], help="as of floodtide segment")
    given = arguments.parse_args()
    rows: list[dict[str, Any]] = []
    for sample in SAMPLES:
        folder = given.folder / Path(sample.folder).parts[0]
        folder.mkdir(parents=True, exist_ok=True)
        for network in given.runs:
            stem = f"{folder / network.name}"
            name = segmented(sample, given.config, network, given.set, stem)
            for part in sample.parts:
                found = scores_of(sample, part, name, stem)
                answers = {network.name: found}
                if network == given.runs[0]:
                    answers |= found["trivial"]
                rows += [
                    {"part": part.name, "answer": answer, **{k: one.get(k) for k in SCORES}}
                    for answer, one in answers.items()
                ]
    with (given.folder / "scores.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["part", "answer", *SCORES])
        table.writeheader()
        table.writerows(rows)
    print("| part | answer | " + " | ".join(SCORES.values()) + " |")
    print("|---" * (2 + len(SCORES)) + "|")
    for row in rows:
        values = ["" if row[key] is None else f"{row[key]:.3f}" for key in SCORES]
        print(f"| {row['part']} | {row['answer']} | " + " | ".join(values) + " |")
    for network in given.runs:
        errors = (
            row["all_adapted_rand_error"]
            for row in rows
            if row["answer"] == network.name and row["part"] in FOLDS
        )
        print(f"{network.name}: median of {', '.join(FOLDS)}: {statistics.median(errors):.3f}")


if __name__ == "__main__":
    main()
