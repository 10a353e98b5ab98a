# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench allreduce` and `floodtide bench scaling`."""

from __future__ import annotations

from typing import Any

import click

from floodtide.bench.allreduce import AllreduceOptions
from floodtide.bench.shapes import ScalingOptions
from floodtide.cli.options import filled, of_fields
from floodtide.cli.rows import as_json, print_rows


@click.command()
@of_fields(AllreduceOptions)
@as_json
def allreduce(as_json: bool, **options: Any) -> None:
    """Measure the sum of an array over ranks with each algorithm and wire format.

    The result of each algorithm is checked first. `ratio` is the median time divided by the median time
    of the MPI library's blocking allreduce in the same run. A value below 1 means faster than the library.

    Example: floodtide bench allreduce --json (started by mpiexec -n 2)
    """
    from floodtide.bench import allreduce as benchmark

    print_rows(benchmark.allreduce(filled(AllreduceOptions, options)), as_json)


@click.command()
@of_fields(ScalingOptions)
@as_json
def scaling(as_json: bool, **options: Any) -> None:
    """Measure the speed-up of training steps from one rank to all ranks, and the speed-up of the processor's peak.

    Starts its ranks with mpiexec, unless mpiexec started this command.

    \b
    Columns:
      fovs_per_s, images_per_s  throughput of all ranks together
      speedup                   throughput of all ranks / throughput of one rank
      peak_speedup              the same for the processor's peak multiply-add rate
      share_of_peak_speedup     speedup / peak_speedup

    Example: floodtide bench scaling --network unet --ranks 2 --json
    """
    from floodtide.bench import scaling as benchmark

    print_rows(benchmark.scaling(filled(ScalingOptions, options)), as_json)
