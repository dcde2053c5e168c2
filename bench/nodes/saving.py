# SPDX-License-Identifier: Apache-2.0
"""A training loop over 1 GiB of state that is saved every ten seconds; how long the loop stands still for it.

saving.py helper: with trainyard.State. saving.py plain BUCKET_URL: torch.save, then a PUT to the object store, as
scripts do by themselves. Prints one JSON object: pauses inside saving, and step times."""
import json
import os
import statistics
import subprocess
import sys
import time

import torch

torch.set_num_threads(1)
mode = sys.argv[1]
SAVES, EVERY = 3, float(os.environ.get("SAVE_EVERY", "10"))
folder = os.environ.get("CKPT", "/opt/ml/checkpoints")
model = torch.nn.ParameterList([torch.zeros(1 << 24) for _ in range(16)])  # 16 x 64 MiB
part = torch.ones(1 << 24)
if mode == "helper":
    import trainyard

    state = trainyard.State(model=model)
pauses, steps, after = [], [], []
next_save = time.monotonic() + EVERY
while len(pauses) < SAVES or time.monotonic() < next_save - EVERY / 2:
    begun = time.monotonic()
    with torch.no_grad():
        model[len(steps) % 16].add_(part, alpha=1e-3)
    steps.append(time.monotonic() - begun)
    if time.monotonic() >= next_save and len(pauses) < SAVES:
        begun = time.monotonic()
        if mode == "helper":
            state.save(len(steps))
        else:
            torch.save(model.state_dict(), folder + "/state.pt")
            subprocess.run(["curl", "-sSf", "-o", "/dev/null", "-T", folder + "/state.pt", sys.argv[2]], check=True)
        pauses.append(time.monotonic() - begun)
        after.append(len(steps))
        next_save += EVERY
if mode == "helper":
    state.wait()
late = [max(steps[at:at + 64], default=0) for at in after]
print(json.dumps({"pauses_ms": [round(p * 1000, 2) for p in pauses], "median_step_ms": round(statistics.median(steps) * 1000, 2),
                  "longest_step_after_ms": [round(p * 1000, 1) for p in late]}), flush=True)
