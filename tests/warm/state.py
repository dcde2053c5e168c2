# SPDX-License-Identifier: Apache-2.0
"""Prints all that a script can see of its own start: run cold and warm, the text must be the same."""
import sys

loaded_first = [*sys.modules]

import json
import logging
import os
import random
import signal
import socket
import threading
import warnings
import urllib.request
from xml.etree import ElementTree


def show(name, value):
    print("%s: %r" % (name, value))


def main_module():
    main = sys.modules["__main__"]
    for name in sorted(vars(main)):
        if name.startswith("__"):
            value = getattr(main, name)
            simple = value is None or isinstance(value, (str, dict))
            show("__main__." + name, value if simple and name != "__builtins__" else type(value))
    show("globals", list(vars(main))[:8])


def streams():
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        show(name, (stream is getattr(sys, "__%s__" % name), stream.name, stream.mode,
                    stream.encoding, stream.errors, stream.line_buffering, stream.write_through,
                    stream.seekable(), stream.isatty(), stream.newlines, sorted(vars(stream))))
        show(name + ".buffer", (type(stream.buffer), stream.buffer.name, stream.buffer.mode,
                                stream.buffer.closed, stream.fileno()))
        raw = getattr(stream.buffer, "raw", stream.buffer)
        show(name + ".raw", (raw.closefd, raw.seekable(), raw._blksize, sorted(vars(raw))))
    show("input", sys.stdin.read())


def interpreter():
    for name in ("argv", "orig_argv", "path", "flags", "meta_path", "path_hooks", "warnoptions",
                 "_xoptions", "executable", "prefix", "exec_prefix", "dont_write_bytecode",
                 "pycache_prefix", "maxsize"):
        value = getattr(sys, name, None)
        if name in ("meta_path", "path_hooks"):
            value = [getattr(item, "__name__", type(item).__name__) for item in value]
        show("sys." + name, value)
    show("importer cache", sorted(sys.path_importer_cache))
    for name in ("excepthook", "displayhook", "unraisablehook", "breakpointhook"):
        show(name, getattr(sys, name) is getattr(sys, "__%s__" % name))
    show("threading.excepthook", threading.excepthook is getattr(
        threading, "__excepthook__", threading.excepthook))
    show("trace", (sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(),
                   sys.getswitchinterval(), sys.exc_info()))
    show("builtins", sorted(vars(sys.modules["builtins"])))
    show("environ methods", [(name, method.__module__, method.__qualname__) for name, method
                             in sorted(vars(type(os.environ)).items()) if callable(method)])
    show("os.isatty", os.isatty is sys.modules["posix"].isatty)
    import atexit
    import faulthandler
    import gc
    import locale
    show("atexit", atexit._ncallbacks())
    show("faulthandler", faulthandler.is_enabled())
    show("gc", (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug()))
    show("locale", locale.setlocale(locale.LC_ALL))
    show("warnings", warnings.filters)
    show("logging", (logging.root.level, logging.root.handlers,
                     sorted(logging.root.manager.loggerDict)))
    show("seeded", random.random() != random.random())
    show("modules at first", sorted(name for name in loaded_first if "customize" in name or
                                    "trainyard" in name))
    # In the order of their import, but for those that `site` lists when it has ended, and for what
    # runpy needs; the script has imported all of them by now.
    order = sorted if __spec__ else list
    show("modules", order(name for name in sys.modules if name not in
                          ("site", "sitecustomize", "usercustomize")))
    show("module files", sorted((name, str(getattr(module, "__file__", None)))
                                for name, module in sys.modules.items()))
    import _socket
    show("one _socket", socket._socket is _socket and issubclass(socket.socket, _socket.socket))


def process():
    import stat
    import subprocess
    show("environ", list(os.environ.items()))
    show("environb", list(os.environb.items()))
    show("posix", sys.modules["posix"].environ is os.environ._data)
    child = subprocess.run(["/usr/bin/env"], stdout=subprocess.PIPE, check=True)
    show("child's environ", sorted(child.stdout.decode().splitlines()))
    show("cwd", os.getcwd())
    mask = os.umask(0)
    os.umask(mask)
    show("umask", mask)
    show("ids", (os.getppid(), os.getpgid(0) == os.getpid(), os.getsid(0), os.getuid(),
                 os.nice(0), sorted(os.sched_getaffinity(0))))
    for number in range(1, signal.NSIG):
        try:
            show("signal %d" % number, signal.getsignal(number))
        except ValueError:
            pass
    show("mask", sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    show("timers", [signal.getitimer(which)[0] for which in (signal.ITIMER_REAL,
                                                            signal.ITIMER_VIRTUAL)])
    with open("/proc/self/status") as file:
        kept = ("Name", "Umask", "SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Threads",
                "NoNewPrivs", "Cpus_allowed_list")
        for line in file:
            if line.split(":")[0] in kept and not line.startswith("SigQ"):
                show("status", line)
    for name in ("cmdline", "limits", "cgroup", "oom_score_adj", "comm"):
        with open("/proc/self/" + name) as file:
            show(name, file.read())
    show("threads", [(thread.name, thread.daemon) for thread in threading.enumerate()])
    names = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    for name in names:
        try:
            mode = os.fstat(name).st_mode
        except OSError:
            continue  # that of the listing
        show("descriptor %d" % name, (stat.S_IFMT(mode), os.get_inheritable(name)))
    import ctypes
    death = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(death))
    show("parent-death signal", death.value)
    libc_output = ctypes.c_char_p.in_dll(ctypes.CDLL(None), "program_invocation_name")
    show("invocation", libc_output.value)


def at_exit():
    import atexit
    for number in range(3):
        atexit.register(lambda number=number: print("atexit", number, __name__))
    thread = threading.Thread(target=lambda: print("thread", threading.active_count()))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main_module()
    streams()
    process()
    interpreter()
    at_exit()
    print("to stderr", file=sys.stderr)
    sys.exit(7)
