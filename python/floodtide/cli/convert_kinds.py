# SPDX-License-Identifier: Apache-2.0
"""What `floodtide convert` does, with its report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floodtide import _core, data, nn
from floodtide.base import network_files
from floodtide.base.networks import section_of
from floodtide.base.outputs import files_in, files_of, refuse_inputs, reserved, starts_like
from floodtide.base.progress import bar
from floodtide.cli import options as shared
from floodtide.data.boxes import Vec3
from floodtide.data.formats.table import format_of
from floodtide.data.look.trained_on import to_text, training_images
from floodtide.data.volumes import stated_by, volume_exists
from floodtide.errors import InvalidArgumentError
from floodtide.nn import onnx_export, safetensors_files
from floodtide.nn.load import is_tensorflow
from floodtide.segment.trained import newest_checkpoint, normalisations, task_of

_NPZ = "npz://"
_OTHERS = {  # networks for other programs
    ".onnx": (onnx_export.save, starts_like("an ONNX model of floodtide", onnx_export.BEGINNING)),
    ".safetensors": (safetensors_files.save, safetensors_files.require_own),
}
_SHOWN = ("depth", "features", "fov", "deltas")  # of a network
_OF_NETWORKS = ("fov", "deltas")
_OF_VOLUMES = ("voxel_nm", "resample_nm", "box", "labels", "erode")

Report = dict[str, Any]


def convert(
    source: str, destination: str, *, fov: Vec3 | None, deltas: Vec3 | None, **of_volumes: Any
) -> Report:
    """Convert the source to what the destination names. Options that do not belong to this conversion are refused."""
    suffix = Path(destination).suffix
    of_network = suffix in (".h5", ".hdf5", *_OTHERS)
    of_google = destination.startswith(_NPZ) or suffix == ".toml"
    if suffix in (".h5", ".hdf5") and volume_exists(source):
        raise InvalidArgumentError(
            f"convert: {source} is a volume, and {destination} is the name of a network; expected {destination}:DATASET"
        )
    if of_network or of_google:
        shared.refuse_given(_OF_VOLUMES, "is for volumes, the destination is none")
    if of_network:
        return network(source, destination, fov, deltas)
    shared.refuse_given(_OF_NETWORKS, "is for networks, the destination is none")
    if not of_google:
        return volume(source, destination, **of_volumes)
    report: Report = {"source": source, "destination": destination}
    if suffix == ".toml":
        from floodtide.segment.ffn_request import write_configuration

        write_configuration(source, destination)
        return report
    from floodtide.segment.ffn_files import write_npz

    folder = destination.removeprefix(_NPZ)
    refuse_inputs("convert", [folder], files_of([source]))
    return report | {"destination": str(write_npz(source, folder))}


def network(source: str, destination: str, fov: Vec3 | None, deltas: Vec3 | None) -> Report:
    """Write a network to a file without a training's state: of floodtide, or for other programs.

    The source may be a run directory, of which the newest checkpoint is converted.
    """
    source = str(newest_checkpoint(source)) if os.path.isdir(source) else source
    write, check = _OTHERS.get(Path(destination).suffix, (None, _core.check_network_output))
    with reserved("convert", destination, check, files_in(source)):
        found = nn.load(source, fov=fov, deltas=deltas)
        statistics, configuration = to_text(training_images(source)), ""
        if not is_tensorflow(source):
            configuration = network_files.stored_text(source, "configuration")
        if write is None:
            found.save(destination, statistics=network_files.joined(statistics, configuration))
        else:
            texts = {"configuration": configuration, **_notes(source)}
            write(found, destination, {network_files.TRAINING_IMAGES: statistics or "[]", **texts})
    count = sum(array.size for array in found.parameters().values())
    report: Report = {"source": source, "destination": destination, "parameters": count}
    known = vars(section_of(found.core))
    return report | {name: known[name] for name in _SHOWN if name in known}


def _notes(source: str) -> dict[str, Any]:
    """Return the metadata for other programs: how images are normalised, and what the outputs are."""
    notes: dict[str, Any] = {"normalisation": "(value - mean) / std"}
    known = normalisations(source, "")
    if known is None:
        same = {(one.mean, one.std) for one in training_images(source)}
        known = list(same) if len(same) == 1 else []
    if known:
        notes["mean"], notes["std"] = map(list, zip(*known, strict=True))
    task = task_of(source)
    if task is not None:
        notes |= {"task": task.kind, "outputs": task.channels, **task.notes}
    return notes


def volume(
    source: str, destination: str, *, voxel_nm: Sequence[float] | None, **asked: Any
) -> Report:
    """Copy a volume, or a box of it. `floodtide.data.convert` explains the arguments in `asked`."""
    try:
        format_of(destination)
    except InvalidArgumentError as error:
        what = "does not end in .h5, .hdf5, .onnx or .safetensors, as networks do, and is no volume"
        raise InvalidArgumentError(f"the destination {destination} {what}: {error}") from None
    with bar("voxels", "convert") as progress:
        copy = data.convert(source, destination, voxel_size_nm=voxel_nm, progress=progress, **asked)
    report: Report = {"source": source, "destination": destination, "shape": copy.shape}
    report |= {"dtype": copy.dtype.name, "voxel_size_nm": copy.geometry.voxel_size_nm}
    stated = stated_by(data.Volume(source), voxel_nm, "--voxel-nm").text
    return report | {"offset": copy.geometry.offset, "stated": stated}
