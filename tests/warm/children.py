# SPDX-License-Identifier: Apache-2.0
"""Processes that a script starts through multiprocessing, in the way its argument names."""
import logging
import multiprocessing
import os
import signal
import sys
import urllib.request

STATE = {"set": "at import"}


def facts(queue, argument):
    main = sys.modules["__main__"]
    queue.put([argument, sys.argv, sys.path, main.__name__, getattr(main, "__file__", None),
               __name__, STATE, os.environ.get("RANK"), os.environ.get("PYTHONPATH"),
               sorted(name for name in os.environ if name.startswith("TRAINYARD")),
               multiprocessing.get_start_method(), multiprocessing.current_process().name,
               sys.stdin.read(), os.getppid() == os.getpid(), signal.getsignal(signal.SIGINT),
               sorted(name for name in sys.modules if "trainyard" in name or "customize" in name)])


def square(number):
    return number * number, multiprocessing.current_process().name.split("-")[0]


def fails():
    raise ValueError("in the child")


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    STATE["set"] = "in main"
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=facts, args=(queue, "argument"))
    child.start()
    print(queue.get())
    child.join()
    print("exit", child.exitcode)
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, range(8)))
    broken = multiprocessing.Process(target=fails)
    broken.start()
    broken.join()
    print("broken", broken.exitcode)
    print(multiprocessing.active_children())
