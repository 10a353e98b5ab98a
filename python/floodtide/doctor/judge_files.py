# SPDX-License-Identifier: Apache-2.0
"""Findings about the file system of the run directory."""

from __future__ import annotations

from floodtide.doctor.finding import ADVICE, OK, PROBLEM, Facts, Finding, Ranks, gib

CHECKPOINT_S = 10.0
SWITCH_OFF = "export HDF5_USE_FILE_LOCKING=FALSE on all ranks"


def directory(ranks: Ranks) -> list[Finding]:
    """Return the findings about the file system of the run directory."""
    facts = ranks[0]["files"]
    where = f"{facts['path']} ({facts['type'] or 'unknown file system'})"
    if "error" in facts:
        return [
            Finding(
                check="directory",
                level=PROBLEM,
                text=f"{where}: cannot write: {facts['error']}",
                advice="choose another run.dir",
            )
        ]
    return [
        _space(ranks[0], where),
        _rename(facts, where),
        _locks(ranks[0], where),
        *_seen(ranks, where),
    ]


def _space(first: Facts, where: str) -> Finding:
    files = first["files"]
    checkpoint, free = first["checkpoint_bytes"], files["free_bytes"]
    seconds = checkpoint / files["write_bytes_per_s"]
    text = (
        f"{where}: {gib(free)} free, {files['write_bytes_per_s'] / 1e6:.0f} MB/s to the disk, a checkpoint takes "
        f"{checkpoint / 1e6:.1f} MB and {seconds:.1f} s"
    )
    if free < first["checkpoints"] * checkpoint:
        return Finding(
            check="space",
            level=PROBLEM,
            text=text,
            advice=f"make room for {first['checkpoints']} checkpoints, or lower run.keep_checkpoints",
        )
    if seconds > CHECKPOINT_S:
        return Finding(
            check="space",
            level=ADVICE,
            text=text,
            advice="choose a faster file system for run.dir, or raise run.checkpoint_every_s",
        )
    return Finding(check="space", level=OK, text=text)


def _rename(files: Facts, where: str) -> Finding:
    if files["rename"]:
        return Finding(
            check="rename",
            level=PROBLEM,
            text=f"{where}: {files['rename']}",
            advice="a crash could leave a broken checkpoint: choose a file system with atomic rename for run.dir",
        )
    return Finding(check="rename", level=OK, text="files are replaced atomically")


def _locks(first: Facts, where: str) -> Finding:
    files = first["files"]
    setting = first["environment"].get("HDF5_USE_FILE_LOCKING", "")
    off = setting.upper() in ("FALSE", "0", "BEST_EFFORT")
    if files["hdf5"]:
        locks = f" (file locks: {files['locks']})" if files["locks"] else ""
        return Finding(
            check="locks",
            level=PROBLEM,
            text=f"{where}: HDF5 files cannot be written: {files['hdf5']}{locks}",
            advice="export HDF5_USE_FILE_LOCKING=FALSE on all ranks"
            if files["locks"] and not off
            else "choose another run.dir",
        )
    if files["locks"] and not off:
        return Finding(
            check="locks",
            level=ADVICE,
            text=f"{where}: file locks do not work ({files['locks']})",
            advice=f"{SWITCH_OFF}: only rank 0 writes, and inputs are only read",
        )
    if files["locks"]:
        return Finding(
            check="locks", level=OK, text=f"do not work, and HDF5_USE_FILE_LOCKING={setting}"
        )
    return Finding(
        check="locks", level=OK, text="file locks work, HDF5 files can be written and read"
    )


def _seen(ranks: Ranks, where: str) -> list[Finding]:
    blind = [facts for facts in ranks if facts["files"]["seen"] is False]
    if not blind:
        return []
    return [
        Finding(
            check="shared",
            level=PROBLEM,
            text=f"{where} of rank 0 is not the one on {', '.join(facts['host'] for facts in blind)}",
            advice="put volumes on a file system that all hosts share; run.dir may be on the host of rank 0 only",
        )
    ]
