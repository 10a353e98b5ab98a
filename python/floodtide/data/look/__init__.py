# SPDX-License-Identifier: Apache-2.0
"""What a volume looks like: statistics of images and labels, bad sections, and whether labels lie on their image.

Large volumes are sampled, always at the same places. Memory stays below about 200 MiB.
"""

from floodtide.data.look.alignment import alignment
from floodtide.data.look.image import image_statistics
from floodtide.data.look.labels import label_statistics
from floodtide.data.look.sampling import QUICK
from floodtide.data.look.trained_on import FIB25, trained_on, training_images

__all__ = [
    "FIB25", "QUICK", "alignment", "image_statistics", "label_statistics", "trained_on",
    "training_images",
]  # fmt: skip
