# SPDX-License-Identifier: Apache-2.0
"""The messages in which a training step sends the gradient of a flood-filling network."""

from __future__ import annotations

from floodtide import _core


def message_buckets(
    depth: int, features: int, bucket_bytes: int | None = None
) -> tuple[list[tuple[int, ...]], list[tuple[int, list[int]]]]:
    """Return how a flood-filling network's gradient is sent.

    Args:
        depth: Number of modules.
        features: Number of feature maps of every hidden layer.
        bucket_bytes: Minimum size of a message in bytes (`comm.bucket_mib`). None: one message for everything.

    Returns:
        The shapes of the network's arrays, and for each message in the order of sending its bytes and the indices of
        the arrays in it.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """
    options = _core.FfnOptions(depth=depth, features=features)
    if bucket_bytes is None:
        bucket_bytes = 4 * (options.parameter_count() + 1)  # more than the gradients have
    shapes = [tuple(shape) for _, shape, _ in options.layout()]
    return shapes, _core.message_buckets(options, bucket_bytes)
