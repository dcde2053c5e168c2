# SPDX-License-Identifier: Apache-2.0
"""Training that survives its machines, in three words: State, Sampler, progress.

Optional: a training script needs none of it to run under Trainyard, and a script that uses it runs anywhere else.
Pure Python, no dependency; PyTorch is used where the caller's own objects are PyTorch's."""

from .environment import checkpoint_folder, rank, world_size
from .report import progress
from .sampler import Sampler
from .state import State

__version__ = "0.1.0"
__all__ = ["Sampler", "State", "checkpoint_folder", "progress", "rank", "world_size"]
