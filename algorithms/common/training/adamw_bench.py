# SPDX-License-Identifier: Apache-2.0
"""torch.optim.AdamW on the parameters of `training_bench adamw`; OMP_NUM_THREADS sets the threads."""
import statistics
import time

import torch


def shapes():
    yield (18000, 768)
    for _ in range(5):
        for _ in range(4):
            yield (768, 768)
            yield (768,)
        yield (3072, 768)
        yield (3072,)
        yield (768, 3072)
        yield (768,)


def main():
    times = {}
    for name, options in (("default", {}), ("foreach", {"foreach": True}), ("fused", {"fused": True})):
        parameters = [torch.nn.Parameter(torch.randn(shape) * 0.02) for shape in shapes()]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter) * 1e-3
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, **options)
        times[name] = []
        for _ in range(10):
            start = time.perf_counter()
            optimizer.step()
            times[name].append((time.perf_counter() - start) * 1e3)
    start = time.perf_counter()
    torch.nn.utils.clip_grad_norm_(parameters, 1e9)
    clip = (time.perf_counter() - start) * 1e3
    text = ", ".join(f"{name} {statistics.median(t):.1f}" for name, t in times.items())
    count = sum(parameter.numel() for parameter in parameters)
    print(f"{count} parameters, {torch.get_num_threads()} threads, median ms: {text}, clip {clip:.1f}")


main()
