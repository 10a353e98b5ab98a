# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench conv`."""

from __future__ import annotations

from typing import Any

import click

from floodtide.bench import kernels
from floodtide.bench.shapes import ConvShape, Timing
from floodtide.cli.options import filled, of_fields
from floodtide.cli.rows import as_json, print_rows


@click.command()
@of_fields(ConvShape)
@click.option(
    "--against", default="", help="Compare with a second kernel. Samples of the two alternate."
)
@of_fields(Timing)
@as_json
def command(against: str, as_json: bool, **options: Any) -> None:
    """Measure forward, backward-data and backward-weights of a convolution. Checks the results first.

    Example: floodtide bench conv --size 33 --channels 32 --against onednn
    """
    shape, timing = filled(ConvShape, options), filled(Timing, options)
    print_rows(kernels.conv(shape, timing, against), as_json)
