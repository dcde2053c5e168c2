# SPDX-License-Identifier: Apache-2.0
"""What the program says about how far it is."""

import json
import os
import time

from .environment import rank

_INTERVAL = 0.2  # seconds; whoever reads it looks once a second
_written = float("-inf")


def progress(step, total=None, message=""):
    """Report step `step` of `total` (None: unknown). Writes at most five times a second, the last step always; costs a
    microsecond otherwise. Without TRAINYARD_PROGRESS_FILE, and on every rank but 0, it does nothing. Never raises for
    a file that cannot be written: a report is not worth a training run."""
    global _written
    path = os.environ.get("TRAINYARD_PROGRESS_FILE")
    if not path or rank() != 0:
        return
    now = time.monotonic()
    if now - _written < _INTERVAL and step != total:
        return
    _written = now
    draft = "{}.{}.tmp".format(path, os.getpid())
    try:
        with open(draft, "w", encoding="utf-8") as file:
            json.dump({"step": int(step), "total": int(total or 0), "message": str(message)}, file)
        os.replace(draft, path)
    except OSError:
        pass
