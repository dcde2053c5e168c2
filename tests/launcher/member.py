#!/usr/bin/env -S python3 -S -E
# SPDX-License-Identifier: Apache-2.0
"""A rank that does as it is told. Arguments: rules "[gN][rN]=ACTION[:TEXT]..."; the first one that
fits this rank's generation and number counts, none is "wait". It leaves a record of its environment
in $MEMBER_OUT/gN.rN.json before it acts, so that a test need not guess what happened."""

import json
import os
import signal
import socket
import sys
import time

LIMIT = 60  # seconds until a forgotten rank ends by itself
OUT = os.environ["MEMBER_OUT"]
GENERATION, RANK = os.environ["TRAINYARD_GENERATION"], os.environ["RANK"]
NAME = f"g{GENERATION}.r{RANK}"
REQUEST = os.environ.get("TRAINYARD_CHECKPOINT_REQUEST", "")


def leave(name, text):
    path = os.path.join(OUT, name)
    with open(path + ".tmp", "w") as file:
        file.write(text)
    os.rename(path + ".tmp", path)


def save():
    folder = os.environ["TRAINYARD_CHECKPOINT_DIR"]
    with open(f"{folder}/{NAME}.tmp", "w") as file:
        file.write("weights")
    os.rename(f"{folder}/{NAME}.tmp", f"{folder}/{NAME}.pt")


def train():
    """Rank 0 steps and, when it is asked, saves and stops stepping; the others stand by."""
    folder = os.environ["TRAINYARD_CHECKPOINT_DIR"]
    path, step = folder + "/last.pt", 0
    if os.path.exists(path):
        step = int(open(path).read())
    with open(f"{OUT}/steps", "a") as steps:
        while RANK == "0" and not os.path.exists(REQUEST):
            step += 1
            print(GENERATION, step, file=steps, flush=True)
            if os.path.exists(OUT + "/stop"):
                sys.exit(0)
            time.sleep(0.002)
    if RANK == "0":
        with open(path + ".tmp", "w") as file:
            file.write(str(step))
        os.rename(path + ".tmp", path)
    wait()


def wait(also=lambda: False):
    """Until the test says stop (the rank then ends well), or `also`."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if os.path.exists(OUT + "/stop"):
            sys.exit(0)
        if also():
            return
        time.sleep(0.01)
    sys.exit(99)


def fits(when):
    for word in when.replace("r", " r").split():
        if word not in ("g" + GENERATION, "r" + RANK):
            return False
    return True


def on(number, action):
    signal.signal(number, lambda *_: action())


def daemonise():
    """A grandchild in a session of its own, which nobody waits for."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            leave(f"child.{NAME}", str(os.getpid()))
            time.sleep(LIMIT)
        os._exit(0)


def act(action, text):
    if action == "exit":
        sys.exit(int(text))
    elif action == "say":  # say:CODE:TEXT
        code, _, words = text.partition(":")
        print(words, file=sys.stderr, flush=True)
        sys.exit(int(code))
    elif action == "kill":
        os.kill(os.getpid(), int(text))
    elif action == "sleep":
        time.sleep(LIMIT)
    elif action == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "busy":
        end = time.process_time() + float(text)
        while time.process_time() < end:
            pass
    elif action == "echo":  # what a healthy rank says when another one has gone; echo:NAME waits for that one's end
        wait(lambda: os.path.exists(f"{OUT}/fail"))
        if text:
            wait(lambda: not os.path.exists(f"/proc/{json.load(open(f'{OUT}/{text}.json'))['pid']}/exe"))
        print("RuntimeError: Connection reset by peer", file=sys.stderr, flush=True)
        sys.exit(1)
    elif action == "fail":  # when the test says so
        wait(lambda: os.path.exists(f"{OUT}/fail"))
        sys.exit(int(text))
    elif action == "struck":  # by a signal, when the test says so
        wait(lambda: os.path.exists(f"{OUT}/fail"))
        os.kill(os.getpid(), int(text))
    elif action == "late":  # late:CODE:TEXT, the culprit that is slower to die than its victims
        code, _, words = text.partition(":")
        on(signal.SIGTERM, lambda: (print(words, file=sys.stderr, flush=True), sys.exit(int(code))))
        leave(f"ready.{NAME}", "")
        wait()
    elif action == "thief":  # somebody has taken MASTER_PORT
        port = socket.create_server(("", int(os.environ["MASTER_PORT"])))
        if os.fork() == 0:
            time.sleep(LIMIT)
        port.close()
        os._exit(1)
    elif action == "answer":  # the request file, by a checkpoint
        wait(lambda: os.path.exists(REQUEST))
        leave(f"request.{NAME}", open(REQUEST).read())
        save()
        time.sleep(LIMIT)
    elif action == "saved":  # the request file, by its removal
        wait(lambda: os.path.exists(REQUEST))
        os.unlink(REQUEST)
        time.sleep(LIMIT)
    elif action == "train":
        train()
    elif action == "look":  # at the request, but never save
        wait(lambda: os.path.exists(REQUEST))
        leave(f"request.{NAME}", open(REQUEST).read())
        wait()
    elif action == "catch":  # catch:SIGNAL
        on(getattr(signal, text), lambda: leave(f"{text}.{NAME}", "got it"))
        leave(f"ready.{NAME}", "")
        wait()
    elif action == "daemon":
        daemonise()
        wait()
    wait()


rules = [rule.partition("=")[::2] for rule in sys.argv[1:]]
chosen = next((what for when, what in rules if fits(when)), "wait")
action, _, text = chosen.partition(":")
if action == "catch":
    signal.signal(getattr(signal, text), signal.SIG_IGN)  # never die of it, however early it comes
leave(NAME + ".json", json.dumps({"env": dict(os.environ), "pid": os.getpid(), "cgroup": open("/proc/self/cgroup").read()}))
act(action, text)
