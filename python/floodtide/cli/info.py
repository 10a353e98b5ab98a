# SPDX-License-Identifier: Apache-2.0
"""`floodtide info`: show the build of floodtide and the properties of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--mpi", is_flag=True, help="Start MPI, to show the thread level that it provides.")
def command(as_json: bool, mpi: bool) -> None:
    """Show version, build, instruction sets, threads, memory and MPI. Under mpiexec rank 0 prints.

    Example: mpiexec -n 2 floodtide info
    """
    from floodtide.comm import world

    facts = collect(start_mpi=mpi)
    if world.rank() != 0:
        return
    if as_json:
        click.echo(json.dumps(facts))
        return
    for line in _lines(facts):
        click.echo(line)


def collect(*, start_mpi: bool = False) -> dict[str, Any]:
    """Return all facts by name. Collective if a launcher started this process.

    Args:
        start_mpi: Start MPI even without a launcher.
    """
    from floodtide import _core

    total, available = _memory_bytes()
    return {
        "version": _core.__version__,
        "build": dict(_core.build_info()),
        "processor": _core.processor_name(),
        "processor_isa": _core.processor_isa(),
        "isa": _core.active_isa(),
        "kernels": [{"name": n, "isa": level} for n, level in _core.bench.conv_kernels()],
        "cores": _core.available_cores(),
        "threads": _core.num_threads(),
        "memory_bytes": total,
        "memory_available_bytes": available,
        "onednn_plugin": Path(_core.__file__).with_name("_dnnl.so").exists(),
        "mpi": _mpi(start_mpi),
    }


def _mpi(start: bool) -> dict[str, Any]:
    from floodtide.comm import world
    from floodtide.comm.launching import libraries
    from floodtide.errors import UnsupportedError

    launched = libraries.launcher()
    if launched is not None:
        world.ensure_init()  # raises if the launcher does not match the MPI library
    facts: dict[str, Any] = {
        "plugins": libraries.plugins(),
        "launcher": launched.name if launched is not None and launched.live else None,
        "ranks": world.size(),
    }
    try:
        library = world.mpi_library()
    except UnsupportedError as error:
        return facts | {"library": None, "reason": str(error)}
    running = start or world.size() > 1
    return facts | {
        "family": library.family,
        "library": library.library,
        "library_version": " ".join(library.version.splitlines()[0].split()),
        "thread_level": library.start() if running else None,
    }


def _memory_bytes() -> tuple[int | None, int | None]:
    """Return (total, free) memory of the machine in bytes; (None, None) if the system does not report them."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        return None, None


def _lines(facts: dict[str, Any]) -> list[str]:
    build, mpi = facts["build"], facts["mpi"]
    kernels = ", ".join(kernel["name"] for kernel in facts["kernels"])
    rows = [
        ("floodtide", facts["version"]),
        ("built with", f"{build['compiler']}, {build['build_type']}"),
        ("", f"HDF5 {build['hdf5']}, Eigen {build['eigen']}, oneDNN {_found(facts)}"),
        ("processor", facts["processor"]),
        ("instructions", f"{facts['isa']} in use, the processor has {facts['processor_isa']}"),
        ("kernels", kernels),
        ("cores, threads", f"{facts['cores']} available, {facts['threads']} used a rank"),
        ("memory", f"{_gib(facts['memory_bytes'])}, {_gib(facts['memory_available_bytes'])} free"),
        ("MPI plug-ins", ", ".join(mpi["plugins"]) or "none"),
    ]
    if mpi["library"] is None:
        rows.append(("MPI library", f"none: {mpi['reason']}"))
    else:
        level = mpi["thread_level"]
        state = "not started" if level is None else f"thread level {level}"
        rows.append(("MPI library", f"{mpi['library_version']} ({mpi['library']}), {state}"))
    rows.append(("ranks", f"{mpi['ranks']}, started by {mpi['launcher'] or 'no launcher'}"))
    return [f"{name:<15} {text}".rstrip() for name, text in rows]


def _found(facts: dict[str, Any]) -> str:
    return "plug-in present" if facts["onednn_plugin"] else "plug-in absent"


def _gib(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 2**30:.1f} GiB"
