"""Runs one case under a launcher in a folder of its own and collects all that can be compared."""

import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).parent
ROOT = pathlib.Path(os.environ.get("COMPAT_ROOT", HERE.parent.parent))
VENV = ROOT / ".venv" / "train" / "bin"
TORCHRUN = [str(VENV / "torchrun")]
if os.environ.get("COMPAT_SUBJECT") == "torchrun":
    OURS = TORCHRUN
else:
    OURS = [os.path.join(os.environ["COMPAT_BIN"], "trainyard-agent"), "launch"]
LIMIT = 60  # seconds for one case; the machine may be busy


@dataclasses.dataclass(frozen=True)
class Case:
    """`flags` may hold {port} and {dir}; with several nodes `node_flags` has one tuple for each."""

    flags: tuple = ()
    script: tuple = (str(HERE / "worker.py"), "dump")
    env: tuple = ()
    node_flags: tuple = ((),)
    send: str = ""  # signal for the launcher once every worker waits
    workers: int = 1


@dataclasses.dataclass
class Node:
    code: int = 0
    out: str = ""
    err: str = ""


@dataclasses.dataclass
class Result:
    nodes: list
    left: dict  # what the workers left behind, by file name without .json
    logs: dict  # relative path: text, or None for a folder
    reply: object
    ended_after: float  # seconds from the signal to the end of the launcher
    survivors: list  # workers' children that outlived the launcher

    @property
    def node(self):
        return self.nodes[0]


UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RUN_FOLDER = re.compile(r"(<UUID>|none|job)_[a-z0-9_]{8}(?![a-z0-9_])")


def normal(text, folder):
    text = str(text).replace(str(folder), "<DIR>")
    text = UUID.sub("<UUID>", text)
    text = re.sub(r"torchelastic_[a-z0-9_]{8}", "<TEMP>", text)
    return RUN_FOLDER.sub("<RUN>", text)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def environment(folder, case):
    keep = ("HOME", "LANG", "TMPDIR", "USER")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env["PATH"] = f"{VENV}:/usr/bin:/bin"
    env["COMPAT_OUT"] = str(folder / "out")
    env["TMPDIR"] = str(folder / "tmp")
    env.update({name: value.replace("{dir}", str(folder)) for name, value in case.env})
    return env


def wait_until(condition, what, processes):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end or any(p.poll() is not None for p in processes):
            raise AssertionError(f"the launcher ended, or nothing came of: {what}")
        time.sleep(0.02)


def tree(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        name = normal(path.relative_to(folder), folder)
        found[name] = None if path.is_dir() else normal(path.read_text(), folder.parent)
    return found


def collect(folder, processes, signalled):
    nodes = []
    for index, process in enumerate(processes):
        code = process.wait(LIMIT)
        texts = [(folder / f"{name}{index}").read_text(errors="replace") for name in ("o", "e")]
        nodes.append(Node(code, *texts))
    ended_after = time.monotonic() - signalled
    left = {p.stem: json.loads(p.read_text()) for p in (folder / "out").glob("*.json")}
    children = [pid for name, pid in left.items() if name.startswith("child.")]
    survivors = [pid for pid in children if is_alive(pid)]
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    reply = folder / "reply.json"
    return Result(
        nodes=nodes,
        left=left,
        logs=tree(folder / "logs"),
        reply=json.loads(reply.read_text()) if reply.exists() else None,
        ended_after=ended_after,
        survivors=survivors,
    )


def run(launcher, case):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="compat_"))
    for name in ("out", "logs", "tmp"):
        (folder / name).mkdir()
    processes = []
    try:
        port = free_port()
        for index, extra in enumerate(case.node_flags):
            flags = [f.format(port=port, dir=folder) for f in case.flags + extra]
            with open(folder / f"o{index}", "w") as out, open(folder / f"e{index}", "w") as err:
                processes.append(subprocess.Popen(
                    [*launcher, *flags, *case.script], stdout=out, stderr=err,
                    stdin=subprocess.DEVNULL, cwd=HERE, env=environment(folder, case),
                    start_new_session=True))
        signalled = time.monotonic()
        if case.send:
            ready = lambda: len(list((folder / "out").glob("ready.*"))) == case.workers
            wait_until(ready, "all workers are ready", processes)
            signalled = time.monotonic()
            processes[0].send_signal(getattr(signal, case.send))
        return collect(folder, processes, signalled), folder
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


POOL = concurrent.futures.ThreadPoolExecutor(max_workers=3)


@functools.cache
def start(case):
    return POOL.submit(run, TORCHRUN, case), POOL.submit(run, OURS, case)


def both(case):
    """(torchrun's result, its folder), (ours, its folder)."""
    reference, subject = start(case)
    return reference.result(), subject.result()
