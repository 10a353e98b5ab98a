# SPDX-License-Identifier: Apache-2.0
"""What `floodtide segment` and `floodtide reconcile` do with a configuration, as functions for scripts."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core, config
from floodtide.base import notes, reading
from floodtide.base.data_options import TrainingVolume
from floodtide.base.outputs import files_of, refuse_inputs, result_dataset
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.config import SegmentOptions
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import is_inside
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.table import format_of
from floodtide.data.image_check import checked_image
from floodtide.data.look.problems import Reading
from floodtide.data.places import places_beside, write_places
from floodtide.data.volumes import note_place, require_same_size
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.segment.blocks import cut_of, in_subvolumes, segment_on_ranks
from floodtide.segment.canvas import BYTES_PER_VOXEL, placed, seed_bytes_per_voxel
from floodtide.segment.checkpoints import remove_checkpoints
from floodtide.segment.flooding import Segmenter, call_rate, output
from floodtide.segment.pieces import PLAN, Pieces
from floodtide.segment.reconciling import places_of, reconcile, write_reconciled
from floodtide.segment.trained import newest_checkpoint, normalisations

NETWORK_BYTES = 300 << 20
"""Memory of network, libraries and the program itself."""
_TIMED_CALLS = 5


def segment_volume(
    file: str, settings: config.Config, out: str, box: str | None = None
) -> dict[str, Any]:
    """Segment a box in one piece, on rank 0. Collective.

    Args:
        file: Name of the configuration, for messages.
        settings: Its content.
        out: "file:dataset" of an HDF5 file; its other datasets are kept.
        box: The box, z0:z1,y0:y1,x0:x1 in voxels; None: segment.box.

    Returns:
        The report, empty on all ranks but 0: segments, coverage, network calls, seconds, and what was used.

    Raises:
        floodtide.errors.Error: If the configuration or a file is wrong, or the result cannot be written.
    """
    report: dict[str, Any] = {}
    with world.agreed():
        if world.rank() == 0:
            report = _segmented(file, settings, out, box)
    return report


def _segmented(file: str, settings: config.Config, out: str, box: str | None) -> dict[str, Any]:
    path, dataset = result_dataset("segment", out)
    options, image, part, size_nm = prepared(file, settings, box)
    checkpoint = Path(f"{path}.{dataset.strip('/').replace('/', '.')}.checkpoint")
    stated = {
        "image": options.image,
        "checkpoint": options.checkpoint,
        "options": json.dumps(config.to_dict(options)),
        "floodtide_version": _core.__version__,
    }
    if size_nm is not None:
        stated["voxel_size_nm"] = json.dumps(size_nm)
    with output(out, [file, *_inputs(options)]):
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        start_s = time.monotonic()
        with bar("voxels", "segment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
            result = segmenter.segment(image, part, progress, checkpoint=checkpoint)
        result.write(path, dataset, stated)
        if options.checkpoint_interval > 0:
            remove_checkpoints(checkpoint)
    if not result.segments:
        notes.warn(
            f"{out}: no segment was found; expected a lower segment.move_threshold (now {options.move_threshold:g}, a"
            " trained network hardly answers more than 1 - training.softness), or a smaller segment.min_segment_size"
            f" (now {options.min_segment_size})"
        )
    return {
        "segments": result.segments,
        "coverage": result.coverage,
        "network_calls": result.network_calls,
        # Calls of a job that was killed, which this one continues.
        "network_calls_before": result.network_calls - segmenter.network_calls,
        "seconds": time.monotonic() - start_s,
        "forward": segmenter.forward,
        "fft_speedup": segmenter.fft_speedup,
        "out": out,
        "checkpoint": options.checkpoint,
        "mean": options.mean,
        "std": options.std,
    }


def segment_subvolumes(
    file: str,
    settings: config.Config,
    folder: str,
    box: str | None = None,
    *,
    numbers: range | None = None,
) -> dict[str, Any]:
    """Segment a box in subvolumes of segment.subvolume, which ranks share. Collective.

    The same call continues after a crash, on any number of ranks. `floodtide.segment.reconcile` makes one segmentation.

    Args:
        file, settings, box: As for `segment_volume`.
        folder: For the subvolumes.
        numbers: Only these subvolumes.

    Returns:
        The report: subvolumes, how many were segmented now and how many are missing, network calls, seconds.

    Raises:
        floodtide.errors.Error: If the configuration or a file is wrong, or the folder cannot be written.
    """
    with world.agreed():
        options, volume, part, _ = prepared(file, settings, box)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        if ":" in folder:
            raise InvalidArgumentError(
                f"--out {folder}: names a dataset, expected a folder, because segment.subvolume cuts the box"
            )
        refuse_inputs("segment", [folder], _inputs(options))
        assert options.subvolume is not None
        pieces = in_subvolumes(
            folder,
            segmenter,
            volume,
            subvolume=options.subvolume,
            overlap=options.overlap,
            box=part,
        )
    start_s = time.monotonic()
    with bar("voxels", "segment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
        segmented = segment_on_ranks(pieces, segmenter, volume, numbers=numbers, progress=progress)
    return {
        "subvolumes": len(pieces.cut),
        "segmented": segmented,
        "network_calls": sum(allgather_object(segmenter.network_calls)),
        "missing": sum(1 for _ in pieces.missing()),
        "seconds": time.monotonic() - start_s,
        "out": folder,
    }


def estimate(
    file: str, settings: config.Config, out: str, box: str | None = None
) -> dict[str, Any]:
    """Estimate what segmenting takes, with the rate of the network on this machine, measured now. Collective.

    Subvolumes in `out` that are segmented already make the estimate better.

    Args:
        file, settings, box: As for `segment_volume`.
        out: What `segment` will write: "file:dataset", or with segment.subvolume a folder.

    Returns:
        The report, with sizes in voxels (z, y, x): subvolumes, memory in bytes, network calls, hours.

    Raises:
        floodtide.errors.Error: If the configuration or a file is wrong.
    """
    with world.agreed():
        options, volume, part, _ = prepared(file, settings, box)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        whole = part or ((0, 0, 0), volume.shape)
        size, overlap = options.subvolume or whole[1], options.overlap
        cut = cut_of(segmenter, volume, size, overlap, whole)
        missing, measured = len(cut), list[int]()
        if options.subvolume is not None and reading.exists(Path(out) / PLAN):
            pieces = in_subvolumes(
                out, segmenter, volume, subvolume=size, overlap=overlap, box=whole
            )
            missing, measured = sum(1 for _ in pieces.missing()), pieces.network_calls()
        each = float(np.mean(measured)) if measured else _places(segmenter.model, cut.size)
        rate, ranks = _rate(segmenter), world.size()
        bytes_per_voxel = BYTES_PER_VOXEL + seed_bytes_per_voxel(options)
        return {
            "subvolumes": len(cut),
            "segmented": len(cut) - missing,
            "counts": cut.counts,
            "size": cut.size,
            "memory_bytes_per_rank": bytes_per_voxel * math.prod(cut.size) + NETWORK_BYTES,
            "network_calls": round(missing * each),
            "network_calls_from": "subvolumes" if measured else "grid",
            "network_calls_per_s": rate,
            "ranks": ranks,
            "hours": missing * each / max(1, min(ranks, missing)) / rate / 3600,
        }


def reconcile_subvolumes(folder: str, out: str, *, inside_voxels: int = 5000) -> dict[str, Any]:
    """Make one segmentation with global ids from the subvolumes in a folder. Collective.

    Args:
        folder: That of `segment_subvolumes`, or of `floodtide.agglomerate.agglomerate`.
        inside_voxels: As for `reconcile`.

    Returns:
        The report: subvolumes, objects, the segments that end at a border without agreement, and on rank 0 the table
        of places, if the subvolumes have such tables.
    """
    with world.agreed():
        places = places_beside(out)
        pieces = Pieces.open(folder)
    with bar("overlaps", "reconcile") as progress:
        found = reconcile(pieces, inside_voxels=inside_voxels, progress=progress)
    doubtful = None
    with world.agreed():  # a damaged table is an error before the volume is written
        if world.rank() == 0:
            doubtful = places_of(pieces, found)
    with bar("voxels", "reconcile") as progress:
        write_reconciled(pieces, found, out, progress)
    report: dict[str, Any] = {
        "subvolumes": len(pieces.cut),
        "objects": found.objects,
        "splits": found.splits,
    }
    with world.agreed():
        start = pieces.cut.box[0]
        if world.rank() == 0 and write_places(places, doubtful, start, pieces.threshold):
            report["places"] = str(places)
    return {**report, "out": out}


def load_options(file: str | Path, overrides: Sequence[str] = ()) -> SegmentOptions:
    """Read the [segment] options of a configuration file as `floodtide segment` does.

    Keys that are missing come from the [[data.volumes]] table that segment.image names, else from the checkpoint.

    Args:
        file: Name of a TOML file.
        overrides: Changed values, as `["segment.min_segment_size=125"]`.

    Raises:
        InvalidFileError: If the file or the checkpoint does not exist or cannot be read.
        ConfigurationError: If a key is unknown, has a wrong value, or is missing everywhere.
    """
    return resolved(str(file), config.load(file, overrides))


def resolved(file: str, settings: config.Config, box: str | None = None) -> SegmentOptions:
    """Return the [segment] options, with missing keys filled in from the named volume and from the checkpoint.

    Args:
        file, settings: As for `segment_volume`.
        box: What replaces `segment.box`.
    """
    options, volume = settings.segment, _volume(settings)
    changes: dict[str, Any] = {} if box is None else {"box": box}
    levels: tuple[float, ...] = ()
    if options.checkpoint:
        changes["checkpoint"] = str(newest_checkpoint(options.checkpoint, file, settings.run.dir))
    if volume is not None:
        changes["image"] = volume.image
        levels = volume.mean, volume.std
    elif options.checkpoint and None in (options.mean, options.std):
        found = normalisations(changes["checkpoint"], options.image)
        levels = found[0] if found else ()
    known = zip(("mean", "std"), levels, strict=False)
    changes |= {name: value for name, value in known if getattr(options, name) is None}
    options = dataclasses.replace(options, **changes)
    _require_all(file, options, settings.data.volumes)
    return options


def prepared(
    file: str, settings: config.Config, box: str | None = None
) -> tuple[SegmentOptions, Volume, Box | None, SizeNm | None]:
    """Resolve the [segment] options, open the image, check it on rank 0, and use run.threads.

    Returns:
        The options; the image; (start, size) of the part to segment, None for the whole image; and the voxel size
        (z, y, x) in nm on rank 0: that of the configuration, else that of the image.
    """
    options = resolved(file, settings, box)
    use_threads(settings)
    part = parse_box(options.box)
    if world.rank() > 0:
        return options, Volume(options.image), part, None
    reading = reading_of(settings, options)
    image, size_nm = checked_image(
        options.image, options.checkpoint, reading, "the configuration", box=part
    )
    require_same_sizes(options, image)
    return options, image, part, size_nm


def require_same_sizes(options: SegmentOptions, image: Volume) -> None:
    """Raise a ShapeError if another volume of the options states voxels of another size than the image.

    If only one of both states a place, a note says how they are laid on each other.
    """
    for name in options.volumes[1:]:
        if name != options.shift_mask:  # its voxels are larger
            other = Volume(name, channel=0)
            require_same_size("segment", other, image)
            start = placed(other, image)
            if is_inside(((0, 0, 0), image.shape), other.shape):  # else it is refused
                note_place("segment", other, image, start)


def use_threads(settings: config.Config) -> None:
    """Use the threads of run.threads; 0: as many as before."""
    if settings.run.threads > 0:
        _core.set_num_threads(settings.run.threads)


def reading_of(settings: config.Config, options: SegmentOptions) -> Reading:
    """Return how resolved options say that the image is read, for checks."""
    volume = _volume(settings)
    return Reading(
        "segment",
        *options.normalisation,
        "segment.mean and segment.std",
        voxel_size_nm=None if volume is None else volume.voxel_size_nm,
        size_key="voxel_size_nm of the [[data.volumes]] table that segment.image names",
    )


def _inputs(options: SegmentOptions) -> list[str]:
    return files_of([*options.volumes, options.checkpoint])


def _volume(settings: config.Config) -> TrainingVolume | None:
    """Return the [[data.volumes]] table to segment, or None if segment.image does not name a table."""
    volumes, image = settings.data.volumes, settings.segment.image
    if not image:
        return volumes[0] if len(volumes) == 1 else None
    return {volume.name: volume for volume in volumes}.get(image)


def _require_all(file: str, options: SegmentOptions, volumes: tuple[TrainingVolume, ...]) -> None:
    """Raise one error that names all missing keys.

    mean and std may come from the checkpoint or from the named volume. So the error names mean and std only if the
    checkpoint and the image are known.
    """
    expected = {
        "checkpoint": "a checkpoint or a run directory",
        "image": "file:dataset or the name of one of the [[data.volumes]]",
    }
    if options.checkpoint and (options.image or not volumes):
        expected |= dict.fromkeys(
            ("mean", "std"), "the mean and standard deviation of the training images"
        )
    missing = [name for name in expected if getattr(options, name) in ("", None)]
    if not missing:
        return
    keys = " and ".join(", ".join(f"segment.{name}" for name in missing).rsplit(", ", 1))
    text = f"{file}: {keys} {'is' if len(missing) == 1 else 'are'} missing, expected "
    text += ", and ".join(dict.fromkeys(expected[name] for name in missing))
    if "mean" in missing or "std" in missing:
        if options.image:
            format_of(options.image)  # a misspelt name of a volume is the reason
        text += f"; {options.checkpoint} does not store how {options.image or 'the image'} is normalised"
    raise ConfigurationError(text)


def _rate(segmenter: Segmenter) -> float:
    """Return the network calls per second on this machine."""
    view = np.zeros(segmenter.model.fov, np.float32)
    segmenter.evaluate(view, view)
    start_s = time.monotonic()
    for _ in range(_TIMED_CALLS):
        segmenter.evaluate(view, view)
    return _TIMED_CALLS / (time.monotonic() - start_s)


def _places(model: Any, size: Vec3) -> int:
    """Return the number of places of the field of view on a grid whose spacing is the distance that it moves."""
    return math.prod(
        1 + max(0, n - fov) // max(1, delta)
        for n, fov, delta in zip(size, model.fov, model.deltas, strict=True)
    )
