# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench volumes`: the same training from volumes of several formats, compared with HDF5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from floodtide.base import limits
from floodtide.cli import options as shared
from floodtide.cli.bench_ranks import training_benchmark
from floodtide.cli.bench_stalls import Measured

if TYPE_CHECKING:
    from floodtide.bench.trainings import Laboratory

_FORMS = {
    "zarr": "{name}.zarr",
    "n5": "{name}.n5",
    "precomputed": "precomputed://{name}.precomputed",
    "tiff": "{name}.tif",
}


@training_benchmark("volumes", ranks=1, depth=9, fov="33", features=32)
@click.option(
    "--formats",
    type=click.Choice(tuple(_FORMS)),
    multiple=True,
    default=("zarr",),
    show_default=True,
    help="Formats to compare with HDF5. Can be given several times.",
)
@click.option(
    "--prefetch",
    type=shared.Number(limits.PREFETCH),
    default=2,
    show_default=True,
    help="As `data.prefetch`.",
)
@click.option(
    "--steps",
    type=shared.Number(limits.COUNT),
    default=30,
    show_default=True,
    help="Training steps of each format in a round.",
)
@click.option(
    "--rounds",
    type=shared.Number(limits.COUNT),
    default=4,
    show_default=True,
    help="Rounds. All formats take turns in each round.",
)
def command(
    lab: Laboratory, formats: tuple[str, ...], prefetch: int, steps: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """Train from HDF5 and from other formats, which the core reads through Python.

    `step_s` is the mean time of a training step, `ratio` compares this time with that of HDF5 (lower is better), and
    `wait_data_s` is the time per step that a rank waits for examples.

    Example: floodtide bench volumes --formats zarr --json
    """
    from floodtide.comm import world

    measured = {"hdf5": Measured(_training(lab, "hdf5", prefetch))}
    for form in formats:
        measured[form] = Measured(_training(lab, form, prefetch))
    for one in measured.values():
        one.drain(2)
    for _ in range(rounds):
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
    from floodtide import data
    from floodtide.comm import world

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
