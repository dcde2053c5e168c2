# SPDX-License-Identifier: Apache-2.0
"""Writing without making the training wait.

A forked child sees memory as it was at the fork, for the price of copying page tables: it writes, the training goes on. Where
a fork is not safe (a GPU in use, no fork in this system) the values are copied first and a thread writes."""

import copy
import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
import warnings


def _walk(value):
    yield value
    if isinstance(value, dict):
        for part in value.values():
            yield from _walk(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _walk(part)


def can_fork(document):
    """True when a child could write `document`: every tensor is in this process's own memory."""
    if not sys.platform.startswith("linux"):
        return False
    torch = sys.modules.get("torch")
    if torch is None:
        return True
    if hasattr(torch, "cuda") and torch.cuda.is_initialized():
        return False
    return all(value.device.type == "cpu" for value in _walk(document) if isinstance(value, torch.Tensor))


def snapshot(document):
    """A copy that later training steps do not change; tensors come to the CPU."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(document, torch.Tensor):
        return document.detach().to("cpu", copy=True)
    if isinstance(document, dict):
        same = type(document)()  # OrderedDict stays one
        for key, value in document.items():
            same[key] = snapshot(value)
        return same
    if type(document) in (list, tuple):
        return type(document)(snapshot(value) for value in document)
    return copy.deepcopy(document)


_LARGE = 4 << 20  # bytes; smaller tensors are not worth a call
_PAGE = 2 << 20
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25  # Linux 6.1 has the second


def _large_ranges(document):
    """Where large tensors lie: {first huge page's address: bytes}."""
    torch = sys.modules.get("torch")
    ranges = {}
    if torch is None or not hasattr(torch.Tensor, "untyped_storage") or not sys.platform.startswith("linux"):
        return ranges
    for value in _walk(document):
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.layout == torch.strided:
            storage = value.untyped_storage()
            start = -(-storage.data_ptr() // _PAGE) * _PAGE
            size = (storage.data_ptr() + storage.nbytes() - start) // _PAGE * _PAGE
            if size >= _LARGE:
                ranges[start] = size
    return ranges


def use_huge_pages(document, after=None):
    """Put large tensors on huge pages, on a thread: a fork copies page tables, which are 512 times smaller then. Training
    that writes while a child `after` lives breaks them up again, so this waits for its end."""
    ranges = _large_ranges(document)
    if not ranges:
        return

    def run():
        if after is not None:
            try:
                os.waitid(os.P_PID, after, os.WEXITED | os.WNOWAIT)
            except (ChildProcessError, OSError):
                pass
        madvise = ctypes.CDLL(None, use_errno=True).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, size in ranges.items():
            madvise(start, size, _MADV_HUGEPAGE)
            for page in range(start, start + size, _PAGE):
                madvise(page, _PAGE, _MADV_COLLAPSE)  # fails where there is none to have: no harm

    threading.Thread(target=run, name="huge pages", daemon=True).start()


class Forked:
    """`work()` in a child."""

    def __init__(self, work):
        ours, childs = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # "multi-threaded": the child runs this file alone
            self.pid = os.fork()
        if self.pid == 0:
            _child(work, childs)
        os.close(childs)
        self._words, self._ending = ours, None

    def ended(self, wait):
        """None while it runs, then "" or why it failed."""
        if self._ending is None:
            try:
                pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it
                pid, status = self.pid, None
            if pid == 0:
                return None
            with open(self._words, "rb") as file:
                words = file.read().decode("utf-8", "replace")
            self._ending = "" if words == "ok" else words or "its process ended with status {}".format(status)
        return self._ending


def _child(work, words):
    code = 1
    try:
        gc.disable()  # collecting would touch, that is copy, the parent's memory
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # meant for the training; it may wait for us
        # Connections of the training must not outlive it through us.
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) != words:
                _close(int(name))
        work()
        os.write(words, b"ok")
        code = 0
    except BaseException as error:
        os.write(words, "".join(traceback.format_exception_only(type(error), error)).strip().encode()[:4000])
    finally:
        os._exit(code)


def _close(descriptor):
    try:
        os.close(descriptor)
    except OSError:
        pass  # it was listdir's own


class Threaded:
    """`work()` in a thread."""

    def __init__(self, work):
        self._ending = None
        self._thread = threading.Thread(target=self._run, args=(work,), name="checkpoint")
        self._thread.start()

    def _run(self, work):
        try:
            work()
            self._ending = ""
        except BaseException as error:
            self._ending = "".join(traceback.format_exception_only(type(error), error)).strip()

    def ended(self, wait):
        if wait:
            self._thread.join()
        return self._ending
