# SPDX-License-Identifier: Apache-2.0
"""An elastic training loop reduced to its skeleton: one all-reduce a step, one line a step in $TRACE.

Rank 0 keeps the step number in $TRAINYARD_CHECKPOINT_DIR (or $CKPT), every $CKPT_EVERY steps and when
SIGUSR1 asks; after an asked-for save everybody waits to be stopped, so that no step is lost."""
import os
import signal
import time

import torch
import torch.distributed as dist

trace = os.open(os.environ["TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
folder = os.environ.get("TRAINYARD_CHECKPOINT_DIR") or os.environ.get("CKPT", "")
every = int(os.environ.get("CKPT_EVERY", "1"))
pause = float(os.environ.get("STEP_SECONDS", "0.02"))
asked = False


def ask(*_):
    global asked
    asked = True


if folder:
    signal.signal(signal.SIGUSR1, ask)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
step = 0
if folder and os.path.exists(folder + "/step"):
    step = int(open(folder + "/step").read())
while True:
    votes = torch.tensor([1.0 if asked else 0.0])
    dist.all_reduce(votes)
    step += 1
    os.write(trace, f"{time.time():.6f} {os.environ['TORCHELASTIC_RESTART_COUNT']} {rank} {world} {step} {os.getpid()} "
                    f"{os.environ.get('TRAINYARD_GENERATION', '0')}\n".encode())
    if folder and rank == 0 and (votes.item() > 0 or step % every == 0):
        with open(folder + "/.step", "w") as file:
            file.write(str(step))
        os.rename(folder + "/.step", folder + "/step")
    if votes.item() > 0:
        while True:
            signal.pause()
    time.sleep(pause)
