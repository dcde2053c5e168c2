# SPDX-License-Identifier: Apache-2.0
"""A program that keeps 100 MB: it says when it trains, and saves when it is asked to go."""
import os
import signal
import sys
import time

FILE = "/opt/ml/checkpoints/state.bin"
SIZE = 100_000_000


def started():
    """When this process began, in seconds since the epoch."""
    ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
    uptime = float(open("/proc/uptime").read().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def leave(*_):
    with open(FILE + ".tmp", "wb") as file:
        file.write(os.urandom(1 << 20) * (SIZE >> 20))
        file.truncate(SIZE)
    os.rename(FILE + ".tmp", FILE)
    sys.exit(0)


kept = os.path.getsize(FILE) if os.path.exists(FILE) else 0
signal.signal(signal.SIGTERM, leave)
print(f"training kept={kept} started={started():.3f} now={time.time():.3f}", flush=True)
while True:
    signal.pause()
