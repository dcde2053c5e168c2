# SPDX-License-Identifier: Apache-2.0
"""Training with worker processes for the data, an optimizer step and a checkpoint."""
import io
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        return torch.tensor([float(index), float(info.id), float(info.seed % 1000)])


if __name__ == "__main__":
    torch.manual_seed(7)
    start_method = sys.argv[1]
    loader = DataLoader(Numbers(), batch_size=8, num_workers=2, shuffle=True,
                        multiprocessing_context=start_method, pin_memory=False)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    for batch in loader:
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(batch.tolist(), loss.item())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    print(len(file.getvalue()), torch.get_num_threads(), torch.get_num_interop_threads())
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(batch)
    print(dist.get_rank(), dist.get_world_size(), os.environ["RANK"])
    dist.destroy_process_group()
