# SPDX-License-Identifier: Apache-2.0
"""`floodtide convert`: convert TensorFlow checkpoints and floodtide checkpoints to files that hold only a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from floodtide import _core, nn
from floodtide.base.outputs import files_in, reserved
from floodtide.errors import InvalidArgumentError


@click.command()
@click.argument("source")
@click.argument("destination")
@click.option(
    "--fov",
    help="Size z,y,x of the field of view in voxels (default: stored in SOURCE, else 33,33,33).",
)
@click.option(
    "--deltas",
    help="Distance z,y,x in voxels by which the field of view moves (default: stored in SOURCE, else 8,8,8).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    source: str, destination: str, fov: str | None, deltas: str | None, as_json: bool
) -> None:
    """Write the network of SOURCE to the HDF5 checkpoint DESTINATION.

    SOURCE is the prefix of a TensorFlow checkpoint of google/ffn, or a floodtide checkpoint.
    DESTINATION holds only the network, without the state of the optimizer and the walkers.

    Example: floodtide convert models/fib25/model.ckpt-27465036 fib25.h5
    """
    if Path(destination).suffix not in (".h5", ".hdf5"):
        raise InvalidArgumentError(f"the destination {destination} does not end in .h5 or .hdf5")
    with reserved("convert", destination, _core.check_network_output, files_in(source)):
        network = nn.load(source, fov=_vector(fov, "--fov"), deltas=_vector(deltas, "--deltas"))
        network.save(destination)
    count = sum(array.size for array in network.parameters().values())
    if as_json:
        row: dict[str, Any] = {"source": source, "destination": destination}
        row |= {"depth": network.core.depth, "features": network.core.features}
        if isinstance(network, nn.FFN):
            row |= {"fov": network.fov, "deltas": network.deltas}
        click.echo(json.dumps(row | {"parameters": count}))
    else:
        click.echo(f"{destination}: {network!r}, {count:,} parameters")


def _vector(text: str | None, option: str) -> tuple[int, int, int] | None:
    if text is None:
        return None
    try:
        z, y, x = (int(part) for part in text.split(","))
    except ValueError:
        raise InvalidArgumentError(
            f"{option} is '{text}', expected three whole numbers z,y,x such as 33,33,33"
        ) from None
    return z, y, x
