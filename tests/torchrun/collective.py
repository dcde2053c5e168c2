"""A gloo job as users write it: env://, one all_reduce, one barrier."""

import json
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
dist.barrier()
path = os.path.join(os.environ["COMPAT_OUT"], f"sum.{dist.get_rank()}.json")
with open(path, "w") as file:
    json.dump([value.item(), dist.get_world_size(), dist.is_torchelastic_launched(),
               os.environ["GROUP_RANK"], os.environ["LOCAL_RANK"]], file)
dist.destroy_process_group()
