# SPDX-License-Identifier: Apache-2.0
"""Segment a volume in subvolumes that daisy hands to its workers, then reconcile them.

    pip install daisy
    python examples/segment_with_daisy.py CONFIG.toml FOLDER OUT WORKERS

CONFIG.toml has a [segment] section with `subvolume`. FOLDER gets the subvolumes, OUT is the name of the volume to
write. A block of daisy is the number of a subvolume, because floodtide spreads subvolumes evenly, not on a grid. Each
worker process loads the network once. daisy repeats blocks that failed. A restart skips subvolumes that are stored.
"""

from __future__ import annotations

import sys

import daisy

import floodtide as ft


def opened(file: str) -> ft.segment.Flooding:
    """Return the network and the image that the [segment] section names."""
    return ft.segment.Flooding.load(file, ft.config.load(file))


def work(file: str, folder: str) -> None:
    """Segment the subvolumes that daisy hands to this process, until there are no more."""
    segmenting, pieces = opened(file), ft.segment.Pieces.open(folder)
    client = daisy.Client()
    while True:
        with client.acquire_block() as block:
            if block is None:
                return
            segmenting.store(pieces, block.write_roi.offset[0])


def main(file: str, folder: str, out: str, workers: str) -> None:
    segmenting = opened(file)
    if segmenting.options.subvolume is None:
        raise SystemExit(f"{file}: segment.subvolume is missing")
    pieces = segmenting.pieces(folder)
    one = daisy.Roi((0,), (1,))
    task = daisy.Task(
        task_id="segment",
        total_roi=daisy.Roi((0,), (len(pieces.cut),)),
        read_roi=one,
        write_roi=one,
        process_function=lambda: work(file, folder),
        read_write_conflict=False,
        max_workers=int(workers),
    )
    if not daisy.run_blockwise([task]):
        raise SystemExit("some subvolumes failed: the same command continues")
    found = ft.segment.reconcile(pieces)
    ft.segment.write_reconciled(pieces, found, out)
    print(f"{found.objects} objects from {len(pieces.cut)} subvolumes: {out}")


if __name__ == "__main__":
    main(*sys.argv[1:5])
