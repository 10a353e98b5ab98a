# SPDX-License-Identifier: Apache-2.0
"""What `floodtide segment` does with the configuration of a flood-filling network, as functions for scripts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from floodtide import _core, config
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import files_in, files_of, refuse_inputs
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.config import SegmentOptions
from floodtide.data import Volume, parse_box
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.table import format_of
from floodtide.data.look.problems import settle
from floodtide.errors import InvalidArgumentError
from floodtide.segment.blocks import cut_of, in_subvolumes, segment_on_ranks
from floodtide.segment.checkpoints import remove_checkpoints
from floodtide.segment.flooding import Segmentation, Segmenter, call_rate, output
from floodtide.segment.image_check import note_without_statistics
from floodtide.segment.masks import volumes_of
from floodtide.segment.pieces import Pieces
from floodtide.segment.reconciling import reconcile, write_reconciled
from floodtide.segment.settings import checked, prepared, resolved, use_threads, voxel_size


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
        options = resolved(file, settings, box)
        if world.rank() == 0:
            with output(out, [file, *_inputs(options)]):
                settle(checked(settings, options))
                report = _segment(settings, options, out)
            note_without_statistics(options.checkpoint, options.image)
    return report


def _segment(settings: config.Config, options: SegmentOptions, out: str) -> dict[str, Any]:
    use_threads(settings)
    segmenter = Segmenter.load(options, compute=settings.run.compute)
    checkpoint = _checkpoint(out)
    volume = Volume(options.image)
    start_s = time.monotonic()
    with bar("voxels", "segment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
        result = segmenter.segment(volume, parse_box(options.box), progress, checkpoint=checkpoint)
    _save(result, options, out, voxel_size(settings, volume))
    if options.checkpoint_interval > 0:
        remove_checkpoints(checkpoint)
    before = result.network_calls - segmenter.network_calls  # by a job that was killed
    return {
        "segments": result.segments,
        "coverage": result.coverage,
        "network_calls": result.network_calls,
        "network_calls_before": before,
        "seconds": time.monotonic() - start_s,
        "forward": segmenter.forward,
        "fft_speedup": segmenter.fft_speedup,
        "checkpoint": options.checkpoint,
        "mean": options.mean,
        "std": options.std,
        "out": out,
    }


def _save(result: Segmentation, options: SegmentOptions, out: str, size_nm: SizeNm | None) -> None:
    notes = {
        "image": options.image,
        "checkpoint": options.checkpoint,
        "options": json.dumps(config.to_dict(options)),
        "floodtide_version": _core.__version__,
    }
    if size_nm is not None:
        notes["voxel_size_nm"] = json.dumps(size_nm)
    result.save(out, notes)


def _checkpoint(out: str) -> Path:
    """Return the file for checkpoints of a segmentation, beside its file."""
    path, dataset = path_and_dataset(out)
    return Path(f"{path}.{dataset.strip('/').replace('/', '.')}.checkpoint")


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
        file: Name of the configuration, for messages.
        settings: Its content.
        folder: For the subvolumes.
        box: The box, z0:z1,y0:y1,x0:x1 in voxels; None: segment.box.
        numbers: Only these subvolumes.

    Returns:
        The report: subvolumes, how many were segmented now and how many are missing, network calls, seconds.

    Raises:
        floodtide.errors.Error: If the configuration or a file is wrong, or the folder cannot be written.
    """
    with world.agreed():
        options = prepared(file, settings, box)
        segmenter = Segmenter.load(options, compute=settings.run.compute)
        volume = Volume(options.image)
        if ":" in folder:
            raise InvalidArgumentError(
                f"--out {folder}: names a dataset, expected a folder, because segment.subvolume cuts the box"
            )
        refuse_inputs("segment", [folder], _inputs(options))
        assert options.subvolume is not None
        places: dict[str, Any] = {
            "subvolume": options.subvolume,
            "overlap": options.overlap,
            "box": parse_box(options.box),
        }
        if numbers is not None:
            cut = cut_of(segmenter, volume, **places)
            for number in (numbers.start, numbers.stop - 1):
                cut.subvolume(number)
        pieces = in_subvolumes(folder, segmenter, volume, **places)
    start_s = time.monotonic()
    with bar("voxels", "segment", line_every_s=10.0, note=call_rate(segmenter)) as progress:
        segmented = segment_on_ranks(pieces, segmenter, volume, numbers=numbers, progress=progress)
    calls = sum(allgather_object(segmenter.network_calls))
    if world.rank() == 0:
        note_without_statistics(options.checkpoint, options.image)
    return {
        "subvolumes": len(pieces.cut),
        "segmented": segmented,
        "network_calls": calls,
        "missing": sum(1 for _ in pieces.missing()),
        "seconds": time.monotonic() - start_s,
        "out": folder,
    }


def reconcile_subvolumes(folder: str, out: str, *, inside_voxels: int = 5000) -> dict[str, Any]:
    """Make one segmentation with global ids from the subvolumes in a folder. Collective.

    Args:
        folder: That of `segment_subvolumes`, or of `floodtide.agglomerate.agglomerate`.
        out: Name of the volume to write.
        inside_voxels: As for `reconcile`.

    Returns:
        The report: subvolumes, objects, and the segments that end at a border without agreement.

    Raises:
        floodtide.errors.Error: If the folder is incomplete or damaged, or a volume cannot be written.
    """
    with world.agreed():
        format_of(out)
        pieces = Pieces.open(folder)
    with bar("overlaps", "reconcile") as progress:
        found = reconcile(pieces, inside_voxels=inside_voxels, progress=progress)
    with bar("voxels", "reconcile") as progress:
        write_reconciled(pieces, found, out, progress)
    return {
        "subvolumes": len(pieces.cut),
        "objects": found.objects,
        "splits": found.splits,
        "out": out,
    }


def _inputs(options: SegmentOptions) -> list[str | Path]:
    return [*files_of(volumes_of(options)), *files_in(options.checkpoint)]
