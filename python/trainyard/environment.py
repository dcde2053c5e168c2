# SPDX-License-Identifier: Apache-2.0
"""Who this process is among the others, and where its checkpoints lie."""

import os
import sys


def process_group():
    """torch.distributed if the caller has initialised it, else None. Never imports torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def rank():
    """This process's number: of torch.distributed once it is initialised, else RANK, else 0."""
    group = process_group()
    return group.get_rank() if group else int(os.environ.get("RANK") or 0)


def world_size():
    """How many processes train together: of torch.distributed once it is initialised, else WORLD_SIZE, else 1."""
    group = process_group()
    return group.get_world_size() if group else int(os.environ.get("WORLD_SIZE") or 1)


def checkpoint_folder():
    """TRAINYARD_CHECKPOINT_DIR, else /opt/ml/checkpoints where there is one (a SageMaker container), else ./checkpoints."""
    named = os.environ.get("TRAINYARD_CHECKPOINT_DIR")
    if named:
        return named
    return "/opt/ml/checkpoints" if os.path.isdir("/opt/ml/checkpoints") else "checkpoints"
