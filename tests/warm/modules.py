# SPDX-License-Identifier: Apache-2.0
"""The modules that a script with torch has in the end, and where they came from."""
import sys

import numpy
import torch
from torch.nn.parallel import DistributedDataParallel

# `site` and what it imports are listed where they end, which for a standby is after its imports.
print([(name, str(getattr(module, "__file__", None))) for name, module in sys.modules.items()
       if name not in ("site", "sitecustomize", "usercustomize")])
# The script's folder is looked into by the first import after the start only.
print(sorted(set(sys.path_importer_cache) - {sys.path[0]}), sys.meta_path[-1], sys.path)
print(torch.__config__.parallel_info(), numpy.get_printoptions(), torch.initial_seed() > 0)
