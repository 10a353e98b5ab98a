# SPDX-License-Identifier: Apache-2.0
"""What `floodtide convert` does, with its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floodtide import _core, data, nn
from floodtide.base.networks import section_of
from floodtide.base.outputs import files_in, files_of, refuse_inputs, reserved, starts_like
from floodtide.base.progress import bar
from floodtide.cli import options as shared
from floodtide.data.boxes import Vec3
from floodtide.data.formats.table import format_of
from floodtide.data.look.trained_on import to_text, training_images
from floodtide.data.volumes import stated_by
from floodtide.errors import InvalidArgumentError
from floodtide.nn import onnx_export
from floodtide.segment.trained import task_of

_NPZ = "npz://"
_SHOWN = ("depth", "features", "fov", "deltas")  # of a network
_OF_NETWORKS, _OF_VOLUMES = ("fov", "deltas"), ("voxel_nm", "resample_nm", "labels", "erode")

Report = dict[str, Any]


def convert(
    source: str,
    destination: str,
    *,
    fov: Vec3 | None,
    deltas: Vec3 | None,
    voxel_nm: Sequence[float] | None,
    resample_nm: Sequence[float] | None,
    labels: bool,
    erode: int,
) -> Report:
    """Convert the source to what the destination names. Options that do not belong to this conversion are refused."""
    of_network = Path(destination).suffix in (".h5", ".hdf5", ".onnx")
    of_google = destination.startswith(_NPZ) or Path(destination).suffix == ".toml"
    if of_network or of_google:
        shared.refuse_given(_OF_VOLUMES, "is for volumes, the destination is none")
    if not of_network:
        shared.refuse_given(_OF_NETWORKS, "is for networks, the destination is none")
    if of_network:
        return network(source, destination, fov, deltas)
    report: Report = {"source": source, "destination": destination}
    if destination.startswith(_NPZ):
        from floodtide.segment.ffn_files import write_npz

        folder = destination.removeprefix(_NPZ)
        refuse_inputs("convert", [folder], files_of([source]))
        return report | {"destination": str(write_npz(source, folder))}
    if of_google:
        from floodtide.segment.ffn_request import write_configuration

        return report | {"notes": write_configuration(source, destination)}
    return volume(source, destination, voxel_nm, resample_nm, labels=labels, erode=erode)


def network(source: str, destination: str, fov: Vec3 | None, deltas: Vec3 | None) -> Report:
    """Write a network to a file without a training's state: of floodtide, or an ONNX model."""
    as_onnx = destination.endswith(".onnx")
    check = starts_like("an ONNX model", b"floodtide") if as_onnx else _core.check_network_output
    with reserved("convert", destination, check, files_in(source)):
        found = nn.load(source, fov=fov, deltas=deltas)
        if as_onnx:
            onnx_export.save(found, destination, _notes(source))
        else:
            found.save(destination, statistics=to_text(training_images(source)))
    count = sum(array.size for array in found.parameters().values())
    row: dict[str, Any] = {"source": source, "destination": destination, "parameters": count}
    known = vars(section_of(found.core))
    return row | {name: known[name] for name in _SHOWN if name in known}


def _notes(source: str) -> dict[str, Any]:
    """Return the metadata of an ONNX model: how images are normalised, and what the outputs are."""
    images = training_images(source)
    trained = [
        {"name": i.name, "mean": i.mean, "std": i.std, "voxel_size_nm": i.voxel_size_nm}
        for i in images
    ]
    notes: dict[str, Any] = {"normalisation": "(value - mean) / std", "training_images": trained}
    task = task_of(source)
    return notes if task is None else notes | {"task": task.kind, "outputs": task.channels}


def volume(
    source: str,
    destination: str,
    voxel_nm: Sequence[float] | None,
    resample_nm: Sequence[float] | None,
    *,
    labels: bool,
    erode: int,
) -> Report:
    """Copy a volume to another format, or to other voxels."""
    try:
        format_of(destination)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"the destination {destination} does not end in .h5, .hdf5 or .onnx, as networks do, and is no volume:"
            f" {error}"
        ) from None
    with bar("voxels", "convert") as progress:
        copy = data.convert(
            source,
            destination,
            voxel_size_nm=voxel_nm,
            resample_nm=resample_nm,
            labels=labels,
            erode=erode,
            progress=progress,
        )
    return {
        "source": source,
        "destination": destination,
        "shape": copy.shape,
        "dtype": copy.dtype.name,
        "voxel_size_nm": copy.geometry.voxel_size_nm,
        "offset": copy.geometry.offset,
        "stated": stated_by(data.Volume(source), voxel_nm, "--voxel-nm").text,
    }
