"""What a worker can notice of its launcher, and what it can do to it. Standard library only.

Words are done in order: dump, say, fail=RANK:CODE, error=dict|text, kill=RANK:SIGNAL, wait,
trap=NAMES, ignore=NAMES, child, until=RESTARTS.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time

OUT = os.environ["COMPAT_OUT"]
RANK = os.environ.get("RANK", "none")
COUNT = os.environ.get("TORCHELASTIC_RESTART_COUNT", "none")


def leave(name, document):
    path = os.path.join(OUT, f"{name}.{RANK}.{COUNT}.json")
    with open(path + ".part", "w") as file:
        json.dump(document, file)
    os.rename(path + ".part", path)


def dump():
    mask = os.umask(0)
    os.umask(mask)
    leave(
        "dump",
        {
            "environment": dict(os.environ),
            "arguments": sys.argv[1:],
            "program": os.path.basename(sys.argv[0]),
            "folder": os.getcwd(),
            "umask": mask,
            "name": __name__,
            "stdin": os.fstat(0).st_rdev == os.stat("/dev/null").st_rdev,
            "unbuffered": sys.stdout.write_through,
            "blocked": sorted(int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "descriptors": [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")],
            "affinity": sorted(os.sched_getaffinity(0)),
            "nice": os.nice(0),
            "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
            # Not the session: ours leaves workers in the terminal's, so that Ctrl-Z stops them.
            "group": os.getpgrp() == os.getpid(),
            "ignored": [s.name for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
                        if signal.getsignal(s) == signal.SIG_IGN],
        },
    )


def say():
    print(f"w{RANK}: first line", flush=True)
    print(f"w{RANK}: apple,pie", flush=True)
    print(f"w{RANK}: to stderr", file=sys.stderr, flush=True)
    sys.stdout.write(f"w{RANK}: 10%\rw{RANK}: 20%\n\nw{RANK}: end\n")
    sys.stdout.flush()


def write_error(kind):
    message = {
        "message": f"ValueError: rank {RANK}\nsecond line",
        "extraInfo": {"py_callstack": f"Traceback\n  frame\nValueError: rank {RANK}\n",
                      "timestamp": str(int(time.time()))},
    }
    document = {"message": message if kind == "dict" else "plain\ntext", "timestamp": 1700000000}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump(document, file)


def of_rank(text):
    rank, _, value = text.partition(":")
    return value if rank == RANK else None


def trap(names):
    def seen(number, _frame):
        leave("signal", signal.Signals(number).name)
        os._exit(0)

    for name in names.split(","):
        signal.signal(getattr(signal, name), seen)


def act(word):
    verb, _, value = word.partition("=")
    if verb == "dump":
        dump()
    elif verb == "say":
        say()
    elif verb == "error" and of_rank(value):
        write_error(of_rank(value))
    elif verb == "fail" and of_rank(value):
        sys.exit(int(of_rank(value)))
    elif verb == "kill" and of_rank(value):
        os.kill(os.getpid(), getattr(signal, of_rank(value)))
    elif verb == "trap":
        trap(value)
    elif verb == "ignore":
        for name in value.split(","):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    elif verb == "child":
        child = subprocess.Popen(["sleep", "240"])
        leave("child", child.pid)
    elif verb == "until" and int(COUNT) < int(value):
        sys.exit(5)
    elif verb == "wait":
        leave("ready", os.getpid())
        time.sleep(60)


for one in sys.argv[1:]:
    act(one)
