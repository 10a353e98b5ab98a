# SPDX-License-Identifier: Apache-2.0
"""What the paper states about its largest run: the anchors that the model is compared with.

Source: Dong, Keceli, Vescovi et al., arXiv:1905.06236v1, figure 3 and section 3. These are inputs;
no result of ours is written here.
"""

from __future__ import annotations

NODES = 1024
FOVS_PER_S = 523.0  # on NODES nodes, one field of view a node and step
EFFICIENCY = 0.71  # throughput on NODES nodes over NODES times the baseline's

# The paper does not print its baseline; this is one node's step if the baseline is one node.
ONE_NODE_STEP_S = EFFICIENCY * NODES / FOVS_PER_S

DEPTH = 9  # modules of 32 features: the printed 472,353 weights
FEATURES = 32

# Moves that the authors' published code makes on a patch before it reads the next one, inside of
# the step: the centre and its 26 neighbours.
MOVES_PER_PATCH = 27

# Bytes a second that one core of its nodes (KNL 7230, 1.3 GHz) adds up: an assumption of ours. It
# matters for less than a thousandth of the step.
ADD_BYTES_PER_S = 3e9
