# SPDX-License-Identifier: Apache-2.0
"""Published figures of the paper's largest run, with which the model is compared.

Source: Dong, Keceli, Vescovi et al., arXiv:1905.06236v1, figure 3 and section 3. These are inputs of the
model. This file contains no result of floodtide.
"""

from __future__ import annotations

NODES = 1024
FOVS_PER_S = 523.0  # on NODES nodes, with one field of view per node and step
EFFICIENCY = 0.71  # throughput on NODES nodes, divided by NODES times that of the baseline

# The paper does not print its baseline. If the baseline is one node, this is the time of its step.
ONE_NODE_STEP_S = EFFICIENCY * NODES / FOVS_PER_S

DEPTH = 9  # modules of 32 features: the printed 472,353 weights
FEATURES = 32

# Moves of the authors' published code on a patch: the centre and its 26 neighbours. The code then reads the next
# patch inside the step.
MOVES_PER_PATCH = 27

# Bytes per second that one core of these nodes (KNL 7230, 1.3 GHz) adds: our assumption. It changes the time of a
# step by less than a thousandth.
ADD_BYTES_PER_S = 3e9
