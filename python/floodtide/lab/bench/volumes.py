# SPDX-License-Identifier: Apache-2.0
"""The same training from volumes of several formats, compared with HDF5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from floodtide import data
from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.rows import Row
from floodtide.comm import world
from floodtide.lab.bench.stalls import Measured
from floodtide.lab.bench.trainings import Laboratory

DEFAULTS = {"ranks": 1}
_FORMS = {
    "zarr": "{name}.zarr",
    "n5": "{name}.n5",
    "precomputed": "precomputed://{name}.precomputed",
    "tiff": "{name}.tif",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The formats, and how long each is measured."""

    formats: tuple[str, ...] = option(
        ("zarr",),
        "Formats to compare with HDF5. Can be given several times",
        choices=tuple(_FORMS),
    )
    prefetch: int = option(2, "As `data.prefetch`", range=limits.PREFETCH)
    steps: int = option(30, "Training steps of each format in a round", range=limits.COUNT)
    rounds: int = option(4, "Rounds. All formats take turns in each round", range=limits.COUNT)


def measure(lab: Laboratory, options: Options) -> Iterator[Row]:
    """Train from HDF5 and from other formats, which the core reads through Python.

    `step_s` is the mean time of a training step, `ratio` compares this time with that of HDF5 (lower is better), and
    `wait_data_s` is the time per step that a rank waits for examples.

    Example: floodtide lab bench volumes --formats zarr --json
    """
    prefetch, steps = options.prefetch, options.steps
    measured = {"hdf5": Measured(_training(lab, "hdf5", prefetch))}
    for form in options.formats:
        measured[form] = Measured(_training(lab, form, prefetch))
    for one in measured.values():
        one.drain(2)
    for _ in range(options.rounds):
        for one in measured.values():
            one.run(steps)
    for form, one in measured.items():
        waited_s = one.sums["data_s"] / world.size() / one.steps
        yield {
            "name": f"volumes, {form}",
            "kernel": f"prefetch {prefetch}",
            "samples": one.steps,
            "step_s": one.step_s,
            "ratio": one.step_s / measured["hdf5"].step_s,
            "examples": one.sums["examples"],
            "wait_data_s": waited_s,
            "wait_share": waited_s / one.step_s,
        }


def _training(lab: Laboratory, form: str, prefetch: int) -> Any:
    """A training on copies of the laboratory's volume. Collective."""
    settings = [f"data.prefetch={prefetch}"]
    volumes = {
        "image": "volume.h5:raw",
        "labels": "volume.h5:labels",
        "partitions": "partitions.h5:af",
    }
    for key, source in volumes.items() if form != "hdf5" else ():
        copy = _FORMS[form].format(name=lab.folder / key)
        with world.agreed():
            if world.rank() == 0:
                voxels = data.Volume(f"{lab.folder}/{source}").read()
                wide = voxels.dtype.itemsize == 8  # which precomputed has for unsigned labels only
                data.convert(data.Volume(voxels.astype("uint32") if wide else voxels), copy)
        settings.append(f"data.volumes.0.{key}={copy}")
    return lab.trainer(form, overrides=settings)
