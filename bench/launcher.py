#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`trainyard run` beside PyTorch's torchrun on the same scripts, in one run.

Usage: launcher.py BIN [latency worker node drain frozen orphans coordinator cold grow rendezvous logs ...]
Prints a Markdown table. torchrun's slow recoveries (40 s each) are measured $SLOW_RUNS times (3), the
rest $RUNS times (10)."""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from report import free_port, row, rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(sys.argv[1]).resolve()
WANTED = sys.argv[2:]
PYTHON = ROOT / ".venv/train/bin/python"
TORCHRUN = [str(PYTHON), "-m", "torch.distributed.run"]
OURS = [str(BIN / "trainyard-agent"), "launch"]
SCRIPTS = ROOT / "bench/launcher"
RUNS = int(os.environ.get("RUNS", "10"))
SLOW_RUNS = int(os.environ.get("SLOW_RUNS", "3"))
TIMEOUT = 90


class PeerHung(RuntimeError):
    pass


class Job:
    """Nodes of one job on this machine; every node is a session of its own."""

    def __init__(self, launcher, nnodes="1", workers=1, extra=(), checkpoint=False, every=1):
        self.launcher, self.workers, self.nnodes = launcher, workers, nnodes
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-bench-"))
        self.trace = self.folder / "trace"
        self.trace.touch()
        self.port = free_port()
        self.nodes = []
        self.env = dict(os.environ, TRACE=str(self.trace), PATH=f"{PYTHON.parent}:{os.environ['PATH']}", CKPT_EVERY=str(every),
                        OMP_NUM_THREADS="1")
        self.extra = list(extra)
        if checkpoint:
            (self.folder / "ckpt").mkdir()
            self.env["CKPT"] = str(self.folder / "ckpt")
            if launcher is OURS:
                self.extra += ["--checkpoint-dir", str(self.folder / "ckpt")]

    def add_node(self):
        argv = self.launcher + ["--nnodes", self.nnodes, "--nproc-per-node", str(self.workers), "--max-restarts", "100"]
        if self.nnodes != "1":
            argv += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-id", self.folder.name]
        argv += self.extra + [str(SCRIPTS / "steps.py")]
        log = open(self.folder / f"node{len(self.nodes)}.log", "w")
        self.nodes.append(subprocess.Popen(argv, env=self.env, stdout=log, stderr=log, start_new_session=True))
        return self.nodes[-1]

    def lines(self):
        """(time, restart count, rank, world, step, pid, generation) of every step so far."""
        result = []
        for line in self.trace.read_text().splitlines():
            words = line.split()
            if len(words) == 7:
                result.append((float(words[0]), *map(int, words[1:])))
        return result

    def wait_for(self, condition, what, timeout=TIMEOUT):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            lines = self.lines()
            found = [line for line in lines if condition(line)]
            if found:
                return found[0]
            time.sleep(0.005)
        logs = "".join((self.folder / f"node{i}.log").read_text()[-1500:] for i in range(len(self.nodes)))
        if self.launcher is TORCHRUN:
            raise PeerHung(f"no {what} within {timeout} s")
        raise RuntimeError(f"no {what} within {timeout} s\n{logs}")

    def first_step_after(self, moment, world=None, timeout=TIMEOUT):
        known = {line[5] for line in self.lines() if line[0] <= moment}
        line = self.wait_for(lambda l: l[0] > moment and l[5] not in known and (world is None or l[3] == world),
                             f"step in a new world of {world}", timeout)
        return line[0] - moment, line

    def settle(self, world, warm=True):
        """Steps are made by the whole world, and standby interpreters (ours) are ready."""
        self.wait_for(lambda l: l[3] == world and l[4] >= 1, f"step in a world of {world}")
        want = self.lines()[-1][4] + 5
        self.wait_for(lambda l: l[4] >= want, "five more steps")
        if self.launcher is OURS and warm:
            self.wait_for_standbys()

    def wait_for_standbys(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            standbys = 0
            for node in self.nodes:
                if node.poll() is None:
                    standbys += len(standbys_of(node.pid))
            if standbys >= self.workers * sum(node.poll() is None for node in self.nodes):
                # Ready is when they have stopped using the processor.
                if all(idle(pid) for node in self.nodes if node.poll() is None for pid in standbys_of(node.pid)):
                    return
            time.sleep(0.05)
        raise RuntimeError("no standby interpreters within 60 s")

    def close(self):
        for node in self.nodes:
            for pid in descendants(node.pid) + [node.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for node in self.nodes:
            node.wait()


def children():
    tree = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = open(f"/proc/{entry}/stat").read()
            except OSError:
                continue
            tree.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry))
    return tree


def descendants(pid):
    tree, result, todo = children(), [], [pid]
    while todo:
        for child in tree.get(todo.pop(), []):
            result.append(child)
            todo.append(child)
    return result


def standbys_of(pid):
    """Interpreters that run under the launcher without having made a step: they hold the hook's socket."""
    result = []
    for child in descendants(pid):
        try:
            if b"TRAINYARD_WARM_FD=" in open(f"/proc/{child}/environ", "rb").read():
                result.append(child)
        except OSError:
            pass
    return [pid for pid in result if not wrote_a_step(pid)]


def wrote_a_step(pid):
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith("/trace") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return True


def ticks(pid):
    try:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    except OSError:
        return -1


def idle(pid):
    before = ticks(pid)
    time.sleep(0.1)
    return before > 20 and ticks(pid) == before


def kill_node(node, number=signal.SIGKILL):
    """The whole machine: the launcher and everything under it, as far as the kernel lets us, at once."""
    for pid in [node.pid] + descendants(node.pid):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def median_ms(values):
    return statistics.median(values) * 1000


def show(values):
    return f"{statistics.median(values):.2f} s" if statistics.median(values) >= 1 else f"{median_ms(values):.0f} ms"


def compare(what, ours, peer, goal):
    global hung
    never = f"; {hung} more never came back" if hung else ""
    hung = 0
    ratio = statistics.median(peer) / statistics.median(ours) if peer and ours else 0
    row(what, f"{show(ours)} (n={len(ours)}, worst {show([max(ours)])})", f"torchrun {show(peer)} (n={len(peer)}{never})" if peer else f"torchrun{never[1:]}" if never else "–",
        f"{ratio:.0f} x" if ratio else "–", goal)


hung = 0


def repeat(count, measure):
    """torchrun does not always come back: such runs are counted, not measured. Ours must."""
    global hung
    values = []
    for _ in range(count):
        try:
            values.append(measure())
        except PeerHung:
            hung += 1
    return values


def bench_latency():
    def first_line(launcher):
        env = dict(os.environ, PATH=f"{PYTHON.parent}:{os.environ['PATH']}")
        start = time.time()
        out = subprocess.run(launcher + ["--standalone", "--nproc-per-node", "1", "--no-python", "python3", str(SCRIPTS / "line.py")],
                             env=env, capture_output=True, text=True)
        return float(out.stdout.split()[0]) - start

    def bare():
        start = time.time()
        out = subprocess.run(["python3", str(SCRIPTS / "line.py")], env=dict(os.environ, PATH=f"{PYTHON.parent}:{os.environ['PATH']}"),
                             capture_output=True, text=True)
        return float(out.stdout.split()[0]) - start

    alone = repeat(RUNS, bare)
    compare(f"exec → first worker line (python3 itself: {median_ms(alone):.0f} ms)", repeat(RUNS * 2, lambda: first_line(OURS)),
            repeat(RUNS, lambda: first_line(TORCHRUN)), "≤ 15 ms")

    def memory(launcher):
        node = subprocess.Popen(launcher + ["--standalone", "--no-python", "sleep", "60"], start_new_session=True)
        end = time.monotonic() + 30
        while "sleep" not in {open(f"/proc/{pid}/comm").read().strip() for pid in descendants(node.pid)} and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3)
        total = 0
        for pid in [node.pid] + descendants(node.pid):
            if open(f"/proc/{pid}/comm").read().strip() == "sleep":
                continue
            for line in open(f"/proc/{pid}/smaps_rollup"):
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        kill_node(node)
        node.wait()
        return total / 1024

    mine, peer = memory(OURS), memory(TORCHRUN)
    row("launcher's memory (PSS of all its processes)", f"{mine:.1f} MB", f"torchrun {peer:.0f} MB", f"{peer / mine:.0f} x", "≤ 6 MB")


def bench_worker():
    def crash(launcher, extra=()):
        job = Job(launcher, workers=2, extra=extra)
        job.add_node()
        try:
            job.settle(2, warm="--no-warm" not in extra)
            victim = job.lines()[-1][5]
            moment = time.time()
            os.kill(victim, signal.SIGKILL)
            return job.first_step_after(moment)[0]
        finally:
            job.close()

    peer = repeat(max(SLOW_RUNS, RUNS // 2), lambda: crash(TORCHRUN))
    compare("worker kill -9 → next step, 1 node x 2, warm", repeat(RUNS, lambda: crash(OURS)), peer, "≤ 0.15 s")
    start = repeat(RUNS, interpreter_start)
    compare(f"worker kill -9 → next step, cold (two interpreters until their group has formed: {show(start)})",
            repeat(RUNS, lambda: crash(OURS, ["--no-warm"])), peer, "≤ interpreter start + 50 ms")


def interpreter_start():
    """Two bare interpreters started together, without any launcher, until their first step."""
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/trace"
        start = time.time()
        port = str(free_port())
        both = [subprocess.Popen([PYTHON, "-u", SCRIPTS / "steps.py"],
                                 env=dict(os.environ, TRACE=trace, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                                          OMP_NUM_THREADS="1", TORCHELASTIC_RESTART_COUNT="0")) for rank in range(2)]
        while not os.path.exists(trace) or not open(trace).read().count("\n"):
            time.sleep(0.002)
        seconds = float(open(trace).read().split()[0]) - start
        for process in both:
            process.kill()
            process.wait()
        return seconds


def two_nodes(launcher, **more):
    job = Job(launcher, nnodes="1:2", **more)
    job.add_node()
    time.sleep(0.3 if launcher is OURS else 4)  # the first one is to host the rendezvous
    job.add_node()
    job.settle(2)
    return job


def bench_node():
    def lose(launcher, index):
        job = two_nodes(launcher)
        try:
            moment = time.time()
            kill_node(job.nodes[index])
            return job.first_step_after(moment, world=1)[0]
        finally:
            job.close()

    compare("node kill -9, --nnodes 1:2 → next step", repeat(RUNS, lambda: lose(OURS, 1)), repeat(SLOW_RUNS, lambda: lose(TORCHRUN, 1)), "≤ 0.4 s")
    compare("first node (with the coordinator) kill -9 → next step (torchrun: the job dies)", repeat(RUNS, lambda: lose(OURS, 0)), [], "–")


def bench_drain():
    lost = []

    def drain(launcher):
        job = two_nodes(launcher, checkpoint=True, every=1000000 if launcher is OURS else 1)
        try:
            moment = time.time()
            job.nodes[1].send_signal(signal.SIGTERM)
            seconds, line = job.first_step_after(moment, world=1)
            before = max(l[4] for l in job.lines() if l[3] == 2)
            lost.append(before - (line[4] - 1))
            return seconds
        finally:
            job.close()

    ours = repeat(RUNS, lambda: drain(OURS))
    mine = list(lost)
    lost.clear()
    compare(f"node SIGTERM → next step (lost steps: {sum(mine)} in {len(mine)} runs)", ours, repeat(SLOW_RUNS, lambda: drain(TORCHRUN)),
            "≤ 0.4 s, 0 lost")


def bench_frozen():
    def detect(freeze):
        job = two_nodes(OURS, extra=["--events", "-"])
        try:
            moment = time.time()
            freeze(job.nodes[1])
            end = time.monotonic() + 30
            while time.monotonic() < end:
                for line in (job.folder / "node0.log").read_text().splitlines():
                    if line.startswith("{") and json.loads(line)["event"] == "generation_aborted":
                        return time.time() - moment
                time.sleep(0.01)
            raise RuntimeError((job.folder / "node0.log").read_text())
        finally:
            kill_node(job.nodes[1], signal.SIGCONT)
            job.close()

    compare("frozen node (SIGSTOP of everything) → generation ends", repeat(RUNS, lambda: detect(lambda node: kill_node(node, signal.SIGSTOP))),
            [], "≤ 2 s (torchrun: none in 75 s)")


def bench_orphans():
    left = []
    for _ in range(RUNS):
        job = Job(OURS, workers=2)
        node = job.add_node()
        job.settle(2, warm=False)
        everybody = descendants(node.pid)
        os.kill(node.pid, signal.SIGKILL)
        time.sleep(1)
        left.append(sum(os.path.exists(f"/proc/{pid}") and state(pid) != "Z" for pid in everybody))
        job.close()
    row(f"agent kill -9: processes left after 1 s, {RUNS} runs", str(sum(left)), "torchrun: workers run on", goal="0")


def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def coordinator_of(pid):
    for child in descendants(pid):
        try:
            if b"coordinate" in open(f"/proc/{child}/cmdline", "rb").read().split(b"\0"):
                return child
        except OSError:
            pass
    raise RuntimeError("no coordinator process")


def bench_coordinator():
    job = two_nodes(OURS)
    gaps, worlds = [], set()
    try:
        for _ in range(RUNS):
            moment = time.time()
            os.kill(coordinator_of(job.nodes[0].pid), signal.SIGKILL)
            time.sleep(1.0)
            after = [l for l in job.lines() if l[0] > moment - 0.1 and l[2] == 0]
            gaps.append(max(b[0] - a[0] for a, b in zip(after, after[1:])))
            worlds |= {l[6] for l in after}
    finally:
        job.close()
    row(f"coordinator kill -9, {RUNS} times: generations begun anew; longest pause between two steps (a step takes 20 ms)",
        f"{len(worlds) - 1}; {max(gaps) * 1000:.0f} ms", "torchrun: the job dies", goal="0 steps missed")


def bench_cold():
    def start(launcher):
        job = Job(launcher, nnodes="1:2")
        moment = time.time()
        job.add_node()
        try:
            return job.wait_for(lambda l: True, "first step")[0] - moment
        finally:
            job.close()

    compare("elastic cold start below max (--nnodes 1:2, one node)", repeat(RUNS, lambda: start(OURS)), repeat(SLOW_RUNS, lambda: start(TORCHRUN)),
            "policy window (2 s)")


def bench_grow():
    lost = []

    def grow(launcher):
        job = Job(launcher, nnodes="1:2", checkpoint=True, every=1000000 if launcher is OURS else 1)
        job.add_node()
        try:
            job.settle(1)
            joined = time.time()
            job.add_node()
            line = job.wait_for(lambda l: l[3] == 2, "step in a world of 2")
            last = max((l for l in job.lines() if l[3] == 1), key=lambda l: l[0])
            lost.append(last[4] - (line[4] - 1))
            return line[0] - last[0], line[0] - joined
        finally:
            job.close()

    ours = repeat(RUNS, lambda: grow(OURS))
    mine = sum(lost)
    peer = repeat(SLOW_RUNS, lambda: grow(TORCHRUN))
    compare(f"scale-up 1 → 2: pause between steps (lost steps: {mine} in {len(ours)} runs)", [o[0] for o in ours], [p[0] for p in peer], "≤ 0.3 s, 0 lost")
    compare("scale-up 1 → 2: exec of the new node → first step together", [o[1] for o in ours], [p[1] for p in peer], "–")


def bench_rendezvous():
    for nodes, goal in ((256, "≤ 50 ms"), (1024, "≤ 300 ms, ≤ 2 GB in all")):
        out = subprocess.run([str(BIN / "bench_rendezvous_rate"), str(nodes)], capture_output=True, text=True)
        result = json.loads(out.stdout.strip().splitlines()[-1])
        row(f"rendezvous of {nodes} simulated nodes: last join → all started", f"{result['last_join_to_all_started_ms']:.0f} ms, "
            f"{result['total_rss_mb']:.0f} MB in all", "torchrun: 1.25 s for 8 nodes, 236 MB each", goal=goal)


def bench_logs():
    lines = 1_000_000

    def spam(launcher, flags):
        folder = tempfile.mkdtemp(prefix="trainyard-bench-")
        command = f"yes {'x' * 99} | head -n {lines}"
        start = time.monotonic()
        with open(f"{folder}/console", "wb") as console:
            subprocess.run(launcher + ["--standalone", "--nproc-per-node", "2", "--log-dir", folder] + flags + ["--no-python", "sh", "-c", command],
                           stdout=console, stderr=subprocess.DEVNULL, check=True)
        seconds = time.monotonic() - start
        count = 0
        files = [f"{folder}/console"] if flags[:1] != ["--redirects"] else map(str, pathlib.Path(folder).rglob("stdout.log"))
        for file in files:
            count += int(subprocess.run(["wc", "-l", file], capture_output=True, text=True).stdout.split()[0])
        subprocess.run(["rm", "-rf", folder])
        if count != 2 * lines:
            raise RuntimeError(f"{count} of {2 * lines} lines")
        return seconds

    for name, flags in (("none", []), ("tee", ["--tee", "3"]), ("redirect", ["--redirects", "3"])):
        ours, peer = repeat(RUNS, lambda: spam(OURS, flags)), repeat(max(3, RUNS // 2), lambda: spam(TORCHRUN, flags))
        compare(f"2·10^6 lines of 100 bytes from two shell workers, {name}: wall time", ours, peer, "≥ 3 x")


def main():
    benches = {name[6:]: fn for name, fn in globals().items() if name.startswith("bench_")}
    unknown = [name for name in WANTED if name not in benches]
    if unknown:
        sys.exit(f"unknown: {' '.join(unknown)}; known: {' '.join(benches)}")
    version = subprocess.run([PYTHON, "-c", "import torch, sys; print(torch.__version__, sys.version.split()[0])"], capture_output=True, text=True).stdout
    print(f"torchrun of PyTorch {version.strip()}; load {os.getloadavg()[0]:.1f}", flush=True)
    for name, bench in benches.items():
        if not WANTED or name in WANTED:
            try:
                bench()
            except (RuntimeError, ValueError, IndexError, StopIteration) as error:
                row(name, f"FAILED: {error}")
    print("\n| what | Trainyard | peer | ratio | asked |\n|---|---|---|---|---|")
    for entry in rows:
        print("| " + " | ".join(entry) + " |")


main()
