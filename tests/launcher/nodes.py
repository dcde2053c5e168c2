# SPDX-License-Identifier: Apache-2.0
"""Real launchers for one job, in a folder of its own; everything waited for has a limit."""

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
AGENT = str(pathlib.Path(os.environ.get("TRAINYARD_BIN", HERE.parent.parent / "build/release/bin")) / "trainyard-agent")
MEMBER = str(HERE / "member.py")
LIMIT = 20  # seconds for anything; the machine may be busy
HOST = socket.gethostname()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, what, limit=LIMIT):
    end = time.monotonic() + limit
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit} s: {what() if callable(what) else what}")
        time.sleep(0.005)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def marked(mark):
    """Every living process with `mark` in its environment, wherever it hangs."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and mark in pathlib.Path(f"/proc/{entry}/environ").read_bytes() and is_alive(entry):
                found.append(int(entry))
        except OSError:
            pass
    return found


def removed(folder):
    try:
        folder.rmdir()
    except OSError:
        return not folder.exists()
    return True


def http_call(port, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Node:
    def __init__(self, job, index, flags, rules, env, program):
        self.job, self.index = job, index
        self.error_path, self.events_path = job.folder / f"err{index}", job.folder / f"events{index}"
        home = job.folder / f"home{index}"
        home.mkdir(exist_ok=True)
        full = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        full.update(PATH="/usr/bin:/bin", MEMBER_OUT=str(job.out), JOB_MARK=job.mark, NODE_MARK=f"{job.mark}.{index}.",
                    TRAINYARD_RDZV_TOKEN="a secret", XDG_RUNTIME_DIR=str(home), TMPDIR=str(home), OMP_NUM_THREADS="1")
        full.update(env)
        words = [AGENT, "launch", "--events", str(self.events_path), "--log-dir", str(job.folder / f"logs{index}"), "--no-python",
                 *map(str, flags), *(program or [MEMBER, *rules])]
        with open(self.error_path, "ab") as err:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=err, stderr=err, env=full, cwd=job.folder,
                                            start_new_session=True)

    def text(self):
        return self.error_path.read_text(errors="replace")

    def end(self, limit=LIMIT):
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"node {self.index} does not end:\n{self.text()}\n{self.events()[-5:]}") from None

    def events(self, what=None):
        if not self.events_path.exists():
            return []
        lines = [json.loads(line) for line in self.events_path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if what in (None, line["event"])]

    def event(self, what):
        return until(lambda: self.events(what), lambda: f"event {what} of node {self.index}:\n{self.text()}")[0]

    def send(self, number):
        self.process.send_signal(number)

    def launcher(self):
        """The launcher proper: the guard's child."""
        return until(lambda: [pid for pid in children(self.process.pid) if b"launch" in words_of(pid)], "the launcher's process")[0]

    def coordinators(self):
        everybody, found = [self.process.pid], []
        while everybody:
            pid = everybody.pop()
            everybody += children(pid)
            if words_of(pid)[1:2] == [b"coordinate"]:
                found.append(pid)
        return found

    def kill_machine(self):
        """As a power cut: everything at once."""
        while todo := marked(f"NODE_MARK={self.job.mark}.{self.index}.".encode()):
            for pid in todo:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()


class Job:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="launcher-test-"))
        self.mark = self.folder.name
        self.out, self.checkpoints = self.folder / "out", self.folder / "checkpoints"
        self.out.mkdir()
        self.checkpoints.mkdir()
        self.nodes = []
        self.endpoint = f"127.0.0.1:{free_port()}"

    def start(self, *flags, rules=(), env=None, program=None):
        self.nodes.append(Node(self, len(self.nodes), flags, rules, env or {}, program))
        return self.nodes[-1]

    def start_many(self, count, nnodes, *flags, rules=(), env=None, conf="last_call_timeout=0.3,resize_debounce=0.05"):
        return [self.join(nnodes, *flags, rules=rules, env=env, conf=conf) for _ in range(count)]

    def join(self, nnodes, *flags, rules=(), env=None, conf="last_call_timeout=0.3,resize_debounce=0.05"):
        return self.start("--nnodes", nnodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint, "--rdzv-id", self.mark,
                          "--rdzv-conf", conf, *flags, rules=rules, env=env)

    def record(self, name):
        path = self.out / name
        return json.loads(path.read_text()) if path.exists() else None

    def everything(self):
        texts = [f"--- node {n.index} ({n.process.poll()})\n{n.text()}" for n in self.nodes]
        return "\n".join([str(sorted(p.name for p in self.out.iterdir())), *texts])

    def appears(self, name):
        """Something a rank leaves; its text."""
        until(lambda: (self.out / name).exists(), lambda: f"{name}\n{self.everything()}")
        return (self.out / name).read_text()

    def runs(self, generation, world=None):
        """Waits until every rank of a generation has started; their environments by rank."""
        first = json.loads(self.appears(f"g{generation}.r0.json"))
        size = int(first["env"]["WORLD_SIZE"])
        if world is not None and size != world:
            raise AssertionError(f"generation {generation} has {size} ranks, not {world}\n{self.everything()}")
        return [json.loads(self.appears(f"g{generation}.r{rank}.json")) for rank in range(size)]

    def stop(self):
        (self.out / "stop").touch()

    def say_fail(self):
        (self.out / "fail").touch()

    def left_over(self):
        return marked(f"JOB_MARK={self.mark}".encode())

    def close(self):
        while todo := self.left_over():
            for pid in todo:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for node in self.nodes:
            node.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class JobTest(unittest.TestCase):
    def setUp(self):
        self.job = Job()
        self.addCleanup(self.job.close)

    def ends(self, node, code):
        self.assertEqual(node.end(), code, f"node {node.index}\n{self.job.everything()}")

    def says(self, node, *words):
        for word in words:
            self.assertIn(word, node.text(), self.job.everything())

    def in_time(self, attempt, limit):
        """attempt() returns seconds; the best of three, because others may use the machine."""
        took = []
        for _ in range(3):
            took.append(attempt())
            if took[-1] <= limit:
                return
            self.job.close()
            self.job.__init__()
        self.fail(f"took {took} s instead of {limit} s")
