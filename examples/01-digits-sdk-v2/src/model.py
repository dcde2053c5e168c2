# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network for 8x8 images of handwritten digits."""
from torch import nn


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.25), nn.Linear(48 * 4 * 4, 10))

    def forward(self, images):
        return self.classifier(self.features(images))
