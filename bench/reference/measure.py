"""What the reference programs tell about themselves: seconds since their process began, peak memory."""

import json
import os
import resource
import time


def seconds_since_start():
    """Since exec of this process, imports included (the kernel counts in hundredths)."""
    with open("/proc/self/stat") as file:
        started = int(file.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def summary(**values):
    """The last line of a program, for bench/algorithms.py."""
    values["peak_mib"] = round(peak_mib(), 1)
    print("summary " + json.dumps(values), flush=True)
