# SPDX-License-Identifier: Apache-2.0
"""Score networks of 20 nm voxels on parts of training_sample2 that they have not seen, and on gala_fib.

    FLOODTIDE_DATA=... python examples/fib25/folds.py runs/folds RUN [RUN ...] [--set segment.KEY=VALUE ...]

Trainings see z 0 to 149, y 0 to 149 of training_sample2 (ffn_evening.toml, evening.toml). Three folds, over two axes,
lie 16 voxels or more away from that part. Settings may be chosen on fold "z". Folds "y" and "zy" and gala_fib are for
scores only. "Inside" leaves out 16 voxels at the faces of the volume, where fields of view need a reflected image.

The truth is cut into connected pieces in each box, so that an object that leaves a box and returns is no split. The
boundaries of gala_fib have no label: they are left out, and in a second row filled with the nearest object.

Each run is segmented by `floodtide segment` with its defaults and the given settings. Results that are there are not
made again. Prints a table, and writes all scores to scores.csv in the folder.
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

Labels = NDArray[np.uint64]


@dataclass(frozen=True)
class Part:
    """A box that is scored, its name, and whether its unlabelled voxels are filled with the nearest object."""

    name: str
    box: str
    filled: bool = False


@dataclass(frozen=True)
class Sample:
    """A volume. The networks see `merged` voxels along each axis in one."""

    folder: str
    grey: tuple[float, float]
    merged: int
    parts: tuple[Part, ...]

    def file(self, name: str) -> str:
        return f"{os.environ['FLOODTIDE_DATA']}/{self.folder}/{name}"


SAMPLES = {
    "training_sample2": Sample(
        "fib25/training_sample2",
        (128, 33),
        2,
        (
            Part("z", "166:250,0:150,0:250"),
            Part("z, inside", "166:234,16:150,16:234"),
            Part("y", "0:150,166:250,0:250"),
            Part("y, inside", "16:150,166:234,16:234"),
            Part("zy", "166:250,166:250,0:250"),
            Part("zy, inside", "166:234,166:234,16:234"),
        ),
    ),
    "gala_fib": Sample(
        "gala_fib/train",
        (148.22, 55.28),
        1,
        (Part("gala", "0:50,0:100,0:200"), Part("gala, filled", "0:50,0:100,0:200", filled=True)),
    ),
}
MEDIAN_OF = ("z", "y", "zy")
NM = 20  # of a voxel of the networks; gala_fib is used as if its voxels had this size
COLUMNS = {
    "all_adapted_rand_error": "Rand error",
    "all_voi_split": "VOI split",
    "all_voi_merge": "VOI merge",
    "coverage": "coverage",
    "run_length": "run length",
}


def run(log: Path, *words: str) -> dict[str, Any]:
    """Run a command of floodtide, unless its result is there. Return its JSON object."""
    if not log.exists():
        print("floodtide", *words, flush=True)
        done = subprocess.run(["floodtide", *words, "--json"], check=True, stdout=subprocess.PIPE)
        log.write_bytes(done.stdout)
    return dict(json.loads(log.read_text()))


def pieces(labels: Labels) -> Labels:
    """Return labels (z, y, x) whose connected pieces (by faces) have ids of their own; 0 stays 0."""
    index = np.arange(labels.size).reshape(labels.shape)
    pairs = []
    for axis in range(3):
        first, second = (np.take(index, range(*ends), axis) for ends in _ends(labels.shape[axis]))
        same = labels.ravel()[first] == labels.ravel()[second]
        pairs.append((first[same], second[same]))
    rows, columns = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    graph = sparse.coo_matrix((np.ones(len(rows), bool), (rows, columns)), (labels.size,) * 2)
    found = sparse.csgraph.connected_components(graph, directed=False)[1].reshape(labels.shape)
    return np.where(labels > 0, found + 1, 0).astype(np.uint64)


def _ends(size: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, size - 1), (1, size)


def truth_of(sample: Sample, part: Part, folder: Path) -> str:
    """Write the truth of a part, cut into pieces, in a volume of zeros. Return its name."""
    path = folder / f"truth {part.name}.h5"
    if not path.exists():
        volume = data.Volume(sample.file("groundtruth.h5:stack"))
        start, size = data.parse_box(part.box)
        labels = np.maximum(volume.read((start, size)).astype(np.int64), 0)
        if part.filled:
            nearest = ndimage.distance_transform_edt(labels == 0, return_indices=True)[1]
            labels = labels[tuple(nearest)]
        whole = np.zeros(volume.shape, np.uint64)
        where = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
        whole[where] = pieces(labels.astype(np.uint64))
        data.write_volume(path, {"labels": whole})
    return f"{path}:labels"


def segmented(sample: Sample, network: str, folder: Path, settings: list[str]) -> str:
    """Segment a whole volume with a network. Return the name of the segmentation, in the voxels of the image."""
    stem, image = folder / Path(network).name, sample.file("grayscale_maps.h5:raw")
    fine, coarse = (",".join([str(size)] * 3) for size in (NM // sample.merged, NM))
    if sample.merged > 1:
        merged = f"{folder}/coarse.h5:raw"
        sizes = ("--voxel-nm", fine, "--resample-nm", coarse)
        run(folder / "coarse.json", "convert", image, merged, *sizes)
        image = merged
    made, grey = (
        f"{stem}.h5:segmentation",
        [f"segment.mean={sample.grey[0]}", f"segment.std={sample.grey[1]}"],
    )
    sets = [word for text in (*grey, *settings) for word in ("--set", text)]
    words = (image, "--model", network, "--voxel-nm", coarse, "--out", made, *sets)
    run(Path(f"{stem}.json"), "segment", *words)
    if sample.merged == 1:
        return made
    name = f"{stem}.fine.h5:segmentation"
    sizes = ("--voxel-nm", coarse, "--resample-nm", fine)
    run(Path(f"{stem}.fine.json"), "convert", made, name, "--labels", *sizes)
    return name


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("runs", nargs="+", help="run directories")
    arguments.add_argument("--set", action="append", default=[], help="as of floodtide segment")
    given = arguments.parse_args()
    rows: list[dict[str, Any]] = []
    for name, sample in SAMPLES.items():
        folder = given.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        for network in given.runs:
            segmentation = segmented(sample, network, folder, given.set)
            for part in sample.parts:
                log = Path(f"{folder / Path(network).name} {part.name}.json")
                words = (segmentation, truth_of(sample, part, folder), "--box", part.box)
                size = ",".join([str(NM // sample.merged)] * 3)
                skeletons = ("--skeletons", "--merge-nodes", "50", "--voxel-nm", size)
                image = ("--image", sample.file("grayscale_maps.h5:raw"))
                found = run(log, "evaluate", *words, *image, *skeletons)
                found["run_length"] = found["run_lengths"]["normalised"]
                answers = {Path(network).name: found} | (
                    found["trivial"] if network == given.runs[0] else {}
                )
                for answer, scores in answers.items():
                    rows.append(
                        {
                            "part": part.name,
                            "network": answer,
                            **{k: scores.get(k) for k in COLUMNS},
                        }
                    )
    with (given.folder / "scores.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["part", "network", *COLUMNS])
        table.writeheader()
        table.writerows(rows)
    print(
        "| part | network | "
        + " | ".join(COLUMNS.values())
        + " |\n"
        + "|---" * (2 + len(COLUMNS))
        + "|"
    )
    for row in rows:
        values = ["" if row[key] is None else f"{row[key]:.3f}" for key in COLUMNS]
        print(f"| {row['part']} | {row['network']} | " + " | ".join(values) + " |")
    names = [Path(network).name for network in given.runs]
    errors = {
        name: statistics.median(
            row["all_adapted_rand_error"]
            for row in rows
            if row["network"] == name and row["part"] in MEDIAN_OF
        )
        for name in names
    }
    for name, error in errors.items():
        print(f"{name}: median of {', '.join(MEDIAN_OF)}: {error:.3f}")
    if len(errors) > 1:
        print(f"median of the runs: {statistics.median(errors.values()):.3f}")


if __name__ == "__main__":
    main()
