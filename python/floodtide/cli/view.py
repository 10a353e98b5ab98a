# SPDX-License-Identifier: Apache-2.0
"""`floodtide view`."""

from __future__ import annotations

import contextlib
import threading

import click

from floodtide.base import limits
from floodtide.cli import options as shared


@click.command()
@click.argument("shown", metavar="RUN-OR-VOLUME")
@shared.text("--image", "VOLUME", "The image; default: that of the result.", default="")
@shared.text("--truth", "VOLUME", "The true objects.", default="")
@shared.text(
    "--bind",
    "ADDRESS[:PORT]",
    "Address to listen on, and port; 0: a free one. The default serves this machine only.",
    default="127.0.0.1:0",
    show_default=True,
)
def command(shown: str, image: str, truth: str, bind: str) -> None:
    """Show a run or a volume in Neuroglancer: image, segmentation with meshes, places to look at, and truth.

    Prints the address for a browser on this machine, and the ssh command for one elsewhere. Ctrl-C ends it.

    \b
    Example:
      floodtide view runs/demo
      floodtide view out.h5:segmentation --truth groundtruth.h5:stack
    """
    from floodtide.view.viewer import layers_of, places_of, serve

    layers, size = layers_of(shown, image, truth)
    address, _, number = bind.partition(":")
    port = shared.parse_number(number or "0", limits.PORT)
    if port is None:
        raise click.BadParameter(f"the port is {number}, expected {limits.PORT}", param_hint=bind)
    places = places_of(layers)
    served = serve(layers, size, places=places, bind=address, port=int(port or 0))
    with contextlib.suppress(KeyboardInterrupt):
        click.echo(f"layers: {', '.join(layer.name for layer in layers)}")
        if places:
            click.echo(f"places to look at: {len(places)}; the keys ] and [ step through them")
        click.echo(f"open {served.url}")
        click.echo(f"from another machine, first: {served.ssh}")
        click.echo("Ctrl-C ends this.")
        threading.Event().wait()
