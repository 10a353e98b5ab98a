# SPDX-License-Identifier: Apache-2.0
"""The `floodtide` program: one module for each subcommand, imported when the subcommand is used.

Exit status: 0 on success, 2 on wrong usage or input, 1 on any other failure, 130 after Ctrl-C. A failure prints one
line on standard error.
"""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Mapping
from typing import Any, TextIO

import click

from floodtide import __version__
from floodtide.errors import Error, Interrupted

COMMANDS = {
    "info": "Show version, build and MPI, or examine the machine before a job.",
    "demo": "Train, segment and report on a synthetic volume.",
    "fetch": "Bring public volumes and the published network to this machine.",
    "init": "Plan a training on your own volume.",
    "inspect": "Look at an image and its labels, or for mistakes in the data of a configuration.",
    "convert": "Convert volumes, networks, and requests and results of google/ffn.",
    "partition": "Classify the voxels of a label volume by local object fraction.",
    "train": "Train a network, or resume a training run.",
    "segment": "Segment a volume with a trained network.",
    "predict": "Apply a U-Net to slices or a volume.",
    "agglomerate": "Merge voxels by affinities, or segments that are one object.",
    "reconcile": "Make one segmentation from overlapping subvolumes.",
    "report": "Write report.html for one or more training runs.",
    "evaluate": "Compare a segmentation with the ground truth.",
    "view": "Show a run or a volume in Neuroglancer.",
    "mesh": "Add meshes and skeletons to a Neuroglancer segmentation.",
    "job": "Write a batch script for Slurm or PBS.",
    "bench": "Measure the speed of kernels, training steps and scaling on this machine.",
    "lab": "Forecasts, sweeps of trainings, their reports, and studies of the engine.",
}
_HEADINGS = {
    "info": "Start", "inspect": "Data", "train": "Train", "segment": "Segment",
    "report": "Look and score", "job": "Cluster and speed", "lab": "Research",
}  # fmt: skip
_MODULES = {"lab": "floodtide.lab.cli"}  # the others are here, under their own names
_NO_ARGUMENTS: Any = getattr(
    click.exceptions, "NoArgsIsHelpError", ()
)  # since click 8.2; its message is the help
_LONGEST_LINE = 1500  # letters


class _Interrupted(BaseException):
    """Ctrl-C was pressed. This class replaces KeyboardInterrupt, for which click would print an empty line."""


class LazyGroup(click.Group):
    """A group of commands that are imported when they are used. This keeps start-up fast on a thousand ranks.

    Args:
        table: Module and help text of each command, in the order in which `--help` lists them. The command is the
            module's `command`.
        headings: Headings of this list, by the command that follows.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]],
        headings: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._table, self._headings = table, headings or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Any:
        found = self._table.get(cmd_name)
        return found and importlib.import_module(found[0]).command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name, (_, text) in self._table.items():
            heading = self._headings.get(name, heading)
            rows.setdefault(heading, []).append((name, text))
        for heading, part in rows.items():
            with formatter.section(heading):
                formatter.write_dl(part)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted(str(error)) from error


@click.group(
    cls=LazyGroup,
    table={
        name: (_MODULES.get(name, f"floodtide.cli.{name}"), text) for name, text in COMMANDS.items()
    },
    headings=_HEADINGS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="floodtide")
def group() -> None:
    """Train U-Nets and flood-filling networks, and segment volumes with them, on one machine or under mpiexec."""


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit with its status. An unexpected exception is shown with its traceback."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # file names may contain any bytes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = run(arguments)
    except Exception:
        traceback.print_exc()
        print("floodtide: internal error: please report it with the lines above", file=sys.stderr)
        status = 1
    sys.exit(_flushed(status))


def _flushed(status: int) -> int:
    """Write out the standard streams, and return the exit status: 1 instead of 0 if results cannot be written.

    Python would try again at its end, and exit with status 120.
    """
    failed, _ = _failure_to_write(sys.stdout, 1), _failure_to_write(sys.stderr, 2)
    if failed and status == 0:
        _print_once(f"floodtide: standard output: {failed}")
        status = 1
    return status


def _failure_to_write(stream: TextIO, number: int) -> str:
    """Write out a stream, or drop its rest and return why."""
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        return _machine_failure(error)
    return ""


def _fill_closed_streams() -> None:
    """Open /dev/null in place of closed standard streams, whose numbers output files would take otherwise."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def run(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit status. Every failure prints one line on standard error.

    This includes failures of the machine, which any code may raise: no disk space, permission, file handle or memory.
    Any other exception is a mistake in floodtide and propagates to the caller.
    """
    from floodtide.comm import world

    arguments = sys.argv[1:] if arguments is None else arguments
    name = next((word for word in arguments if word in COMMANDS), "")
    prefix = f"floodtide {name}".rstrip()
    try:
        result: Any = group.main(arguments, prog_name="floodtide", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        text = error.format_message()
        is_help = isinstance(error, _NO_ARGUMENTS)
        _print_once(text if is_help else f"{prefix}: {_one_line(text)}")
        return 2
    except click.exceptions.Exit as error:
        return error.exit_code
    except (_Interrupted, click.Abort, KeyboardInterrupt) as error:
        if not isinstance(error.__cause__, Interrupted):
            from floodtide.base import locks

            locks.release_all()  # the traceback may hold one, and the next line may end the process
            world.fail(KeyboardInterrupt("interrupted"))  # other ranks may not have received it
        _print_once(f"{prefix}: {error if str(error) else 'interrupted'}")
        return 130
    except (Error, OSError, MemoryError) as error:
        if getattr(error, "agreed", False) or world.size() == 1:
            text = str(error) if isinstance(error, Error) else _machine_failure(error)
            _print_once(f"{prefix}: {_one_line(text).removeprefix(f'{name}: ')}")  # `prefix` has it
        else:
            world.fail(error)  # only this rank failed: report the failure and end the other ranks
        return getattr(error, "exit_status", 1)
    except BaseException as error:
        if world.size() > 1:
            world.fail(error)
        raise


def _machine_failure(error: OSError | MemoryError) -> str:
    """Return one line that says what the operating system refused."""
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".rstrip(": ")
    what = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {what}" if error.filename is not None else what


def _one_line(text: str) -> str:
    """Return the text as one line of printable characters, cut if it is very long."""
    line = re.sub(r"\s*[^\S ]\s*", " ", text).strip()  # names keep their spaces
    line = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
    )


def _print_once(line: str) -> None:
    """Print a line on standard error on rank 0 only."""
    from floodtide.base import notes
    from floodtide.comm import world

    if world.rank() == 0:
        notes.line(line)
