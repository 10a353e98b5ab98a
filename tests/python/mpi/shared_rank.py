# SPDX-License-Identifier: Apache-2.0
"""One rank of a shared job (shared_jobs.py): run one program after another and report how each ended.

Usage: mpiexec -n N python shared_rank.py SOCKET
Between programs the rank waits for its socket and uses no processor time.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
import tempfile
import traceback
from multiprocessing.connection import Client
from typing import IO

import floodtide as ft


def execute(arguments: list[str]) -> int:
    """Run what `python arguments...` would run, and return the exit status."""
    sys.argv = ["-c", *arguments[2:]] if arguments[0] == "-c" else list(arguments)
    try:
        if arguments[0] == "-c":
            exec(compile(arguments[1], "<program of a test>", "exec"), {"__name__": "__main__"})
        elif arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def perform(arguments: list[str]) -> tuple[int, str, str]:
    """Run a program in an environment like that of a new process. Return exit status, output and error output."""
    variables, folder, path, words = dict(os.environ), os.getcwd(), list(sys.path), sys.argv
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    }
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        kept = [os.dup(1), os.dup(2)]
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        try:
            status = execute(arguments)
            gc.collect()
            ft.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            for number, descriptor in enumerate(kept, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(folder)
        sys.path[:], sys.argv = path, words
        return status, text_of(output), text_of(errors)


def text_of(file: IO[bytes]) -> str:
    """Return all that was written to a file."""
    file.seek(0)
    return file.read().decode(errors="backslashreplace")


def main() -> None:
    """Answer programs from the socket until the test session closes it."""
    with Client(sys.argv[1], family="AF_UNIX") as session:
        ft.init()
        session.send(ft.rank())
        ft.shutdown()
        while True:
            try:
                arguments = session.recv()
            except EOFError:
                return
            session.send(perform(arguments))


main()
