# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab noise`."""

from __future__ import annotations

import math
from typing import Any

import click

from floodtide.cli.options import filled, of_fields, overrides, rows_as_json
from floodtide.lab.cli.columns import print_columns
from floodtide.lab.noise import Options, measure

_FORMATS = {"noise_scale": ".3g", "low": ".3g", "high": ".3g", "examples": ""}


@click.command()
@click.argument("file", metavar="CHECKPOINT|CONFIG.toml")
@overrides
@of_fields(Options)
@rows_as_json
def command(file: str, overrides: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure the gradient noise scale of a network at fixed weights.

    The noise scale is the number of examples whose mean gradient has as much noise as signal. With fewer examples in a
    step, more of them make training nearly as many times faster; with more of them, they gain little. A checkpoint
    knows its training data. For other weights, give a configuration whose model.initial_weights names them.

    \b
    Columns:
      noise_scale, low, high   in examples, with a 95 % interval: fields of view of flood filling, or patches; inf (in
                               JSON null) if no gradient can be told from the noise
      examples                 number of examples measured

    Example: floodtide lab noise runs/fib25/checkpoints/step-2000.h5 --minutes 20
    """
    from floodtide.base.progress import bar

    with bar("seconds", "noise") as progress:
        found, examples = measure(file, overrides, filled(Options, options), progress)
    row: dict[str, Any] = {"noise_scale": found.examples, "low": found.low, "high": found.high}
    if as_json:  # which has no infinity
        row = {name: scale if math.isfinite(scale) else None for name, scale in row.items()}
    print_columns([row | {"examples": examples}], as_json, _FORMATS)
