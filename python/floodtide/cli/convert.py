# SPDX-License-Identifier: Apache-2.0
"""`floodtide convert`: convert networks to files that hold only a network, and volumes to other formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from floodtide import _core, nn
from floodtide.base import limits
from floodtide.base.outputs import files_in, reserved
from floodtide.cli import options as shared
from floodtide.data.look.trained_on import to_text, training_images
from floodtide.errors import InvalidArgumentError

_CHECKPOINTS = (".h5", ".hdf5")


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
@click.option(
    "--voxel-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="Voxel size z,y,x of a volume in nm (default: stored in SOURCE).",
)
@click.option(
    "--resample-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="Write a volume at this voxel size z,y,x in nm: means of the voxels, or a linear interpolation.",
)
@click.option(
    "--labels",
    is_flag=True,
    help="The volume holds labels: precomputed states it, and --resample-nm takes the most frequent label.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    source: str,
    destination: str,
    fov: str | None,
    deltas: str | None,
    voxel_nm: tuple[float, float, float] | None,
    resample_nm: tuple[float, float, float] | None,
    labels: bool,
    as_json: bool,
) -> None:
    """Write a network to another file, or a volume in another format.

    If DESTINATION ends in .h5 or .hdf5, SOURCE is a network: the prefix of a TensorFlow checkpoint of google/ffn, or a
    floodtide checkpoint. DESTINATION then holds only the network, without the state of the optimizer and the walkers.

    If DESTINATION is the name of a volume, SOURCE is a volume: file.h5:dataset, volume.zarr/path, volume.n5/path,
    precomputed://folder, stack.tif, 'folder/*.tif' or 'folder/*.png'. The volume is copied block by block, with voxel
    size and offset where the formats have them.

    \b
    Example:
      floodtide convert models/fib25/model.ckpt-27465036 fib25.h5
      floodtide convert raw.h5:raw raw.zarr --voxel-nm 30,4,4
      floodtide convert stack.tif stack-10nm.zarr --voxel-nm 8,8,8 --resample-nm 10,10,10
    """
    if Path(destination).suffix in _CHECKPOINTS:
        if voxel_nm is not None or resample_nm is not None or labels:
            raise click.UsageError(
                "--voxel-nm, --resample-nm and --labels are for volumes, the destination is a checkpoint"
            )
        _network(source, destination, fov, deltas, as_json)
    else:
        if fov is not None or deltas is not None:
            raise click.UsageError("--fov and --deltas are for networks, the destination is none")
        _volume(source, destination, voxel_nm, resample_nm, labels, as_json)


def _network(
    source: str, destination: str, fov: str | None, deltas: str | None, as_json: bool
) -> None:
    with reserved("convert", destination, _core.check_network_output, files_in(source)):
        network = nn.load(source, fov=_vector(fov, "--fov"), deltas=_vector(deltas, "--deltas"))
        network.save(destination, statistics=to_text(training_images(source)))
    count = sum(array.size for array in network.parameters().values())
    if as_json:
        row: dict[str, Any] = {"source": source, "destination": destination}
        row |= {"depth": network.core.options.depth, "features": network.core.options.features}
        if isinstance(network, nn.FFN):
            row |= {"fov": network.fov, "deltas": network.deltas}
        click.echo(json.dumps(row | {"parameters": count}))
    else:
        click.echo(f"{destination}: {network!r}, {count:,} parameters")


def _volume(
    source: str,
    destination: str,
    voxel_nm: tuple[float, float, float] | None,
    resample_nm: tuple[float, float, float] | None,
    labels: bool,
    as_json: bool,
) -> None:
    from floodtide import data
    from floodtide.base.progress import bar
    from floodtide.data.formats import format_of

    try:
        format_of(destination)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"the destination {destination} does not end in .h5 or .hdf5, as networks do, and is no volume: {error}"
        ) from None
    with bar("voxels", "convert") as progress:
        if resample_nm is None:
            copy = data.convert(
                source, destination, voxel_size_nm=voxel_nm, labels=labels, progress=progress
            )
        else:
            copy = data.resample(
                source,
                destination,
                voxel_size_nm=voxel_nm,
                new_voxel_size_nm=resample_nm,
                labels=labels,
                progress=progress,
            )
    row = {
        "source": source,
        "destination": destination,
        "shape": copy.shape,
        "dtype": copy.dtype.name,
        "voxel_size_nm": copy.geometry.voxel_size_nm,
        "offset": copy.geometry.offset,
    }
    text = f"{destination}: {' x '.join(map(str, copy.shape))} voxels of {copy.dtype}"
    click.echo(json.dumps(row) if as_json else text)


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
