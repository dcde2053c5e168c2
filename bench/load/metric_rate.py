#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of metric_rate.cc: a Python `re` loop over the same lines and definitions. Prints one line of JSON."""
import json
import re
import sys
import time

DEFINITIONS = [
    r"Train Loss: ([0-9\.]+)",
    r"loss: ([0-9.]+), acc: ([0-9.]+)",
    r"acc: ([0-9.]+)",
    r"current learning_rate:([0-9\.]+e?-?[0-9]*)",
    r"throughput=([0-9.]+) samples/sec",
]


def line(n):
    """As in metric_rate.cc: one line in twenty of each metric kind, seventeen of other output."""
    x = (n * 2654435761) % 4294967296
    kind = n % 20
    stamp = f"2026-01-31 12:{n // 60 % 60:02d}:{n % 60:02d},{x % 1000:03d}"
    if kind == 0:
        return f"{stamp} INFO trainer.py:217 epoch {n // 1000} step {n} Train Loss: 0.{x % 10000:04d} eta 0:12:{x % 60:02d}"
    if kind == 7:
        return f"[valid] {stamp} epoch {n // 1000} loss: 1.{x % 1000:03d}, acc: 0.{x % 997:03d} on 5000 samples"
    if kind == 13:
        return f"{stamp} current learning_rate:{1 + x % 9}e-05, ppl: {x % 50}.5, step: {n}, speed: 3.{x % 10} steps/s"
    if kind % 3 == 0:
        return f"{stamp} INFO data.py:88 reader: file part-{x % 4096:05d}.gz, {x % 9973} lines, queue {x % 32} of 32 full"
    if kind % 3 == 1:
        return f"algo-1:{x % 30000}:{n} [0] NCCL INFO Channel {x % 16:02d} : 0[0] -> 1[1] via P2P/direct pointer"
    return f"  {x % 100}%|####      | {n}/100000 [00:{x % 60:02d}<01:{n % 60:02d}, {x % 90}.31it/s]"


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    lines = [line(n) for n in range(count)]
    patterns = [re.compile(d) for d in DEFINITIONS]
    best = 0.0
    points = 0
    for _ in range(3):
        points = 0
        total = 0.0
        start = time.perf_counter()
        for text in lines:
            for pattern in patterns:
                match = pattern.search(text)
                if match:
                    total += float(match.group(1))
                    points += 1
        best = max(best, count / (time.perf_counter() - start))
    print(json.dumps({"bench": "metric_rate_python", "lines": count, "points": points, "lines_per_second": round(best)}))


if __name__ == "__main__":
    main()
