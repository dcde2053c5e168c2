# SPDX-License-Identifier: Apache-2.0
"""What is outside the box of an elastic job's node: the agent it can talk to, and the coordinator that belongs to no node."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import unittest

from nodes import AGENT, HERE, LIMIT, children, until, words_of


def external_host():
    """The test program that hosts a coordinator; built with the tests."""
    places = [os.environ.get("TRAINYARD_EXTERNAL_HOST", ""), pathlib.Path(AGENT).parent / "external_host",
              HERE.parent.parent / "build/dev/bin/external_host"]
    for place in places:
        if place and os.access(place, os.X_OK):
            return str(place)
    raise unittest.SkipTest("external_host is missing; build it with: cmake --build build/dev --target external_host")


class Coordinator:
    def __init__(self, job, nodes, expected=0, restarts=3):
        self.job, self.port, self.notes = job, int(job.endpoint.rpartition(":")[2]), []
        self.process = subprocess.Popen([external_host(), job.mark, "a secret", nodes, str(expected), str(restarts), str(self.port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"JOB_MARK": job.mark})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.note("listening")

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.notes.append(json.loads(line))

    def all(self, what):
        return [note["fields"] for note in list(self.notes) if note["what"] == what]

    def note(self, what, count=1):
        return until(lambda: len(self.all(what)) >= count and self.all(what), lambda: f"{count} x {what}: {self.notes}")[count - 1]

    def pids(self):
        return [pid for pid in children(self.process.pid) if words_of(pid)[1:2] == [b"coordinate"]]

    def kill(self):
        """The coordinator, not its host; the next one is there when this returns."""
        old = until(self.pids, "a coordinator")[0]
        os.kill(old, signal.SIGKILL)
        until(lambda: self.pids() not in ([], [old]), "another coordinator")

    def close(self):
        self.process.stdin.close()
        self.process.wait(LIMIT)
        self.reader.join(LIMIT)
        self.process.stdout.close()


class Agent:
    """Listens as the agent of a node; keeps what its launcher says, with times; answers as told to."""

    def __init__(self, job, index):
        self.path = str(job.folder / f"agent{index}")
        self.lines, self.connection = [], None
        self.answers = {}  # first word of a question: a list of callables, used up one by one; then "ok"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(1)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            self.connection, _ = self.server.accept()
            with self.connection.makefile() as lines:
                for line in lines:
                    self.lines.append((time.monotonic(), line.strip()))
                    word = line.split()[0]
                    if word in ("starting", "stopped"):
                        told = self.answers.get(word)
                        self.say(told.pop(0)() if told else "ok")

    def say(self, text):
        with contextlib.suppress(OSError):
            self.connection.sendall((text + "\n").encode())

    def leave(self, seconds, why):
        self.say(f"leave {int(seconds * 1000)} {why}")

    def said(self):
        return [text for _, text in list(self.lines)]

    def when(self, line):
        """When the launcher said this."""
        return until(lambda: [at for at, text in list(self.lines) if text == line], lambda: f"{line}: {self.said()}")[0]

    def close(self):
        for one in (self.connection, self.server):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
        self.thread.join(LIMIT)
