# SPDX-License-Identifier: Apache-2.0
"""Segment two volumes in every way that floodtide has, and score all results alike (docs/real_em.md).

The volumes: sections 190 to 249 of FIB-25's training_sample2, and all of gala_fib. Runs the commands of floodtide one
after another, from the repository's root; results that are there are not made again:

    FLOODTIDE_DATA=... python examples/fib25/quality.py runs/quality \\
        --fine-tuned runs/fib25-fine-tune --affinities runs/evening-1 runs/evening-2 runs/evening-3

Prints a table: adapted Rand error and variation of information over all voxels, coverage, normalised expected run
length, and core hours of the segmentation (processor time; training not included). A row is left out if its network is
not given.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sample:
    """A volume with its truth. The network reads 16 sections more than are scored, where there are any.

    U-Nets for affinities read the image with `merged` voxels along each axis in one: both volumes then look alike.
    """

    folder: str
    mean: float
    std: float
    voxel_nm: str
    segmented: str
    scored: str
    merged: int

    def file(self, name: str) -> str:
        return f"{os.environ['FLOODTIDE_DATA']}/{self.folder}/{name}"


SAMPLES = {
    "training_sample2": Sample(
        "fib25/training_sample2",
        128,
        33,
        "10,10,10",
        "174:250,0:250,0:250",
        "190:250,0:250,0:250",
        2,
    ),
    "gala_fib": Sample(
        "gala_fib/train", 148.22, 55.28, "1,1,1", "0:50,0:100,0:200", "0:50,0:100,0:200", 1
    ),
}
CONFIGURATION = "examples/fib25/zero_shot.toml"


@dataclass(frozen=True)
class Row:
    """A segmentation of a sample, and the seconds of processor time that it took."""

    method: str
    segmentation: str
    seconds: float


def processor_s() -> float:
    """Processor time of all commands that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(log: Path, *words: str) -> dict[str, Any]:
    """Run a command of floodtide, unless its result is there. Return its JSON object, with the key processor_s."""
    if not log.exists():
        print("floodtide", *words, flush=True)
        before_s = processor_s()
        done = subprocess.run(["floodtide", *words, "--json"], check=True, stdout=subprocess.PIPE)
        found = json.loads(done.stdout) | {"processor_s": processor_s() - before_s}
        log.write_text(json.dumps(found))
    return dict(json.loads(log.read_text()))


def settings(sample: Sample, checkpoint: str | None = None) -> list[str]:
    """The words of a command that replace settings of zero_shot.toml, which it also gets."""
    given: dict[str, Any] = {
        "segment.image": sample.file("grayscale_maps.h5:raw"),
        "segment.mean": sample.mean,
        "segment.std": sample.std,
        "segment.reflect": "true",
        "segment.box": sample.segmented,
    }
    if checkpoint:
        given["segment.checkpoint"] = checkpoint
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


def flood(
    sample: Sample, out: Path, checkpoint: str | None = None, words: Sequence[str] = ()
) -> tuple[str, float]:
    """Segment by flood filling. Return the segmentation and the seconds."""
    name = f"{out}.h5:segmentation"
    given = settings(sample, checkpoint)
    made = run(Path(f"{out}.json"), "segment", CONFIGURATION, "--out", name, *given, *words)
    return name, made["processor_s"]


def flooded(sample: Sample, out: Path, tuned: str | None) -> Iterator[Row]:
    name, seconds = flood(sample, out / "published")
    yield Row("published network", name, seconds)
    if tuned:
        name, seconds = flood(sample, out / "fine_tuned", tuned)
        yield Row("fine-tuned network", name, seconds)
    base, base_s = flood(sample, out / "consensus", words=("--set", "segment.consensus=reverse"))
    yield Row("published network, consensus", base, base_s)
    name, pairs = f"{out / 'objects'}.h5:segmentation", str(out / "pairs")
    words = ("agglomerate", CONFIGURATION, base, name, "--pairs", pairs, *settings(sample))
    merged = run(out / "objects.json", *words)
    seconds = base_s + merged["processor_s"]
    yield Row("published network, consensus and agglomeration", name, seconds)


def from_affinities(sample: Sample, out: Path, network: str) -> Iterator[Row]:
    """Predict affinities, make segments of them, and bring these back to the voxels of the image."""
    stem = out / Path(network).name
    image, box, again = sample.file("grayscale_maps.h5:raw"), sample.segmented, sample.merged > 1
    fine = sample.voxel_nm
    coarse = ",".join(str(sample.merged * int(size)) for size in fine.split(","))
    if again:
        words = (
            "convert",
            image,
            f"{out}/coarse.h5:raw",
            "--voxel-nm",
            fine,
            "--resample-nm",
            coarse,
        )
        run(out / "coarse.json", *words)
        image = f"{out}/coarse.h5:raw"
        ends = [[int(n) // sample.merged for n in axis.split(":")] for axis in box.split(",")]
        box = ",".join(f"{low}:{high}" for low, high in ends)
    affinities = f"{stem}.affinities.h5:affinities"
    grey = ("--mean", str(sample.mean), "--std", str(sample.std))
    predicted = run(
        Path(f"{stem}.affinities.json"), "predict", network, image, affinities, *grey, "--box", box
    )
    for method in ("median", "mean"):
        made, name = f"{stem}.{method}.coarse.h5:segmentation", f"{stem}.{method}.h5:segmentation"
        words = ("agglomerate", affinities, made if again else name, "--method", method)
        grouped = run(Path(f"{stem}.{method}.json"), *words)
        if again:
            words = (
                "convert",
                made,
                name,
                "--labels",
                "--voxel-nm",
                coarse,
                "--resample-nm",
                fine,
            )
            run(Path(f"{stem}.{method}.fine.json"), *words)
        seconds = predicted["processor_s"] + grouped["processor_s"]
        yield Row(f"affinities of {stem.name}, {method}", name, seconds)


def scored(sample: Sample, row: Row) -> dict[str, Any]:
    """Compare a segmentation with the truth."""
    log = Path(row.segmentation.replace(".h5:segmentation", ".scores.json"))
    words = (row.segmentation, sample.file("groundtruth.h5:stack"), "--box", sample.scored)
    image = ("--image", sample.file("grayscale_maps.h5:raw"))
    skeletons = ("--skeletons", "50", "--voxel-nm", sample.voxel_nm)
    return run(log, "evaluate", *words, *image, *skeletons)


def line(name: str, scores: dict[str, Any], length: float | None, hours: float | None) -> str:
    cells = [
        name,
        f"{scores['all_adapted_rand_error']:.3f}",
        f"{scores['all_voi_split']:.2f} + {scores['all_voi_merge']:.2f}",
        f"{scores['coverage']:.2f}",
        "" if length is None else f"{length:.2f}",
        "" if hours is None else f"{hours:.3f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--fine-tuned", help="run or checkpoint of a flood-filling network")
    arguments.add_argument(
        "--affinities", nargs="*", default=[], help="runs of U-Nets for affinities"
    )
    given = arguments.parse_args()
    table = [
        "| volume, method | Rand error | VOI split + merge | coverage | run length | core hours |"
    ]
    table.append("|" + "---|" * 6)
    for name, sample in SAMPLES.items():
        out = given.folder / name
        out.mkdir(parents=True, exist_ok=True)
        rows = list(flooded(sample, out, given.fine_tuned))
        for network in given.affinities:
            rows += from_affinities(sample, out, network)
        trivial: dict[str, Any] = {}
        for row in rows:
            found = scored(sample, row)
            trivial = found["trivial"]
            length, hours = found["run_lengths"]["normalised"], row.seconds / 3600
            table.append(line(f"{name}, {row.method}", found, length, hours))
        table += [line(f"{name}, {answer}", found, None, None) for answer, found in trivial.items()]
    print("\n".join(table))


if __name__ == "__main__":
    main()
