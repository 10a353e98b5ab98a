# SPDX-License-Identifier: Apache-2.0
"""A gunpowder node that predicts affinities with a U-Net of floodtide, and a pipeline that uses it.

Needs `pip install gunpowder`; run by hand with gunpowder 1.4.4. Since then, only the line that makes the network
has changed.
"""

import gunpowder as gp
import numpy as np
from funlib.persistence import Array

import floodtide as ft


class Predict(gp.BatchFilter):
    """Add affinities, predicted by a U-Net of floodtide, to a batch."""

    def __init__(self, model, raw, affinities, mean, std):
        self.model, self.raw, self.affinities = model, raw, affinities
        self.mean, self.std = mean, std

    def setup(self):
        spec = self.spec[self.raw].copy()
        spec.dtype = np.float32
        self.provides(self.affinities, spec)
        self.enable_autoskip()

    def prepare(self, request):
        return gp.BatchRequest({self.raw: request[self.affinities].copy()})

    def process(self, batch, request):
        image = (batch[self.raw].data.astype(np.float32) - self.mean) / self.std
        probabilities = self.model.forward(image[None])[0]
        spec = batch[self.raw].spec.copy()
        spec.dtype = np.float32
        result = gp.Batch()
        result[self.affinities] = gp.Array(np.moveaxis(probabilities, -1, 0), spec)
        return result


raw, affinities = gp.ArrayKey("RAW"), gp.ArrayKey("AFFINITIES")
image, _ = ft.data.synth((32, 48, 48), seed=1)
source = gp.ArraySource(raw, Array(image, offset=(0, 0, 0), voxel_size=(10, 10, 10)))
model = ft.nn.UNet(ft.nn.UNetOptions(depth=2), classes=3, output="sigmoid")  # or ft.nn.load(file)

request = gp.BatchRequest()
request.add(affinities, (320, 480, 480))
pipeline = source + Predict(model, raw, affinities, mean=128.0, std=33.0)
with gp.build(pipeline):
    print(pipeline.request_batch(request)[affinities].data.shape)  # (3, 32, 48, 48)
