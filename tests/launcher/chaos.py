#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random kills, freezes, partitions, clock jumps and coordinator restarts over an elastic job of eight launchers.

Usage: chaos.py BIN WORKER [--faults N] [--seed S] [--nodes 8] [--namespaces]

Real processes: each node is a `trainyard-agent launch` with one chaos_worker (and a child of it in a
session of its own). With --namespaces every node has a network namespace of its own on one bridge, so
that links can be cut and slowed down without a process noticing. The same seed gives the same faults.

Checked from the workers' own records and from /proc:
  - a generation's workers have all ended before the next one's first record;
  - ranks of a generation are a permutation, world sizes agree;
  - generations go up in time; after every burst of faults the job trains again with all live nodes;
  - no process, descriptor or cgroup is left behind."""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("bin")
parser.add_argument("worker")
parser.add_argument("--faults", type=int, default=200)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--nodes", type=int, default=8)
parser.add_argument("--namespaces", action="store_true")
parser.add_argument("--keep", action="store_true")
args = parser.parse_args()

BIN = pathlib.Path(args.bin).resolve()
WORKER = pathlib.Path(args.worker).resolve()
RANDOM = random.Random(args.seed)
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-chaos-"))
TRACE = FOLDER / "trace"
TRACE.touch()
MARK = f"CHAOS_TRACE={TRACE}".encode()
FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
THAW_SLACK = 0.25  # a thawed worker may write until its launcher, thawed with it, has killed it
RUN = f"ty{os.getpid() % 10000}"


def sh(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parents():
    tree = collections.defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            tree[int(stat[1])].append(int(entry))
    return tree


def under(pid, tree=None):
    tree, result, todo = tree or parents(), [], [pid]
    while todo:
        for child in tree.get(todo.pop(), []):
            result.append(child)
            todo.append(child)
    return result


def marked(mark=MARK):
    """Every process of this run (or node), wherever it hangs."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if mark in open(f"/proc/{entry}/environ", "rb").read():
                    if open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
                        found.append(int(entry))
            except OSError:
                pass
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def name(pid):
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
    except OSError:
        return []


class Node:
    def __init__(self, index):
        self.index, self.process, self.frozen, self.cut = index, None, [], False
        self.namespace = f"{RUN}n{index}"
        self.starts = 0
        self.hit = 0.0
        if args.namespaces:
            sh(f"ip netns add {self.namespace} && ip link add {RUN}v{index} type veth peer name eth0 netns {self.namespace} && "
               f"ip link set {RUN}v{index} master {RUN}b up && ip -n {self.namespace} addr add 10.231.77.{index + 1}/24 dev eth0 && "
               f"ip -n {self.namespace} link set eth0 up && ip -n {self.namespace} link set lo up")

    def start(self, endpoint):
        prefix = ["ip", "netns", "exec", self.namespace] if args.namespaces else []
        env = dict(os.environ, CHAOS_TRACE=str(TRACE), CHAOS_CHILD="1", CHAOS_NODE=self.mark(), TRAINYARD_RDZV_TOKEN="chaos", XDG_RUNTIME_DIR=str(FOLDER / f"home{self.index}"))
        (FOLDER / f"home{self.index}").mkdir(exist_ok=True)
        if FAKETIME.exists():
            # Every machine has a wall clock of its own, which may jump; the monotonic one may not.
            self.set_clock(0)
            env.update(LD_PRELOAD=str(FAKETIME), FAKETIME_TIMESTAMP_FILE=str(FOLDER / f"clock{self.index}"), FAKETIME_DONT_FAKE_MONOTONIC="1",
                       FAKETIME_CACHE_DURATION="1")
        log = open(FOLDER / f"node{self.index}.log", "a")
        log.write(f"--- start {self.starts} at {time.monotonic():.3f}\n")
        log.flush()
        self.process = subprocess.Popen(
            prefix + [str(BIN / "trainyard-agent"), "launch", "--nnodes", f"1:{args.nodes}", "--nproc-per-node", "1", "--rdzv-backend", "c10d",
                      "--rdzv-endpoint", endpoint, "--rdzv-id", FOLDER.name, "--max-restarts", "1000000", "--log-dir", str(FOLDER / "logs"),
                      "--rdzv-conf", "last_call_timeout=1,resize_debounce=0.1", "--events", str(FOLDER / f"events{self.index}"),
                      "--no-python", str(WORKER)],
            env=env, stdout=log, stderr=log, start_new_session=True)
        self.last_mark = self.mark().encode()
        self.starts += 1

    def set_clock(self, offset):
        (FOLDER / f"clock{self.index}").write_text(f"{offset:+d}s")

    def mark(self):
        return f"{self.index}.{self.starts}."

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def everybody(self):
        return [self.process.pid] + under(self.process.pid)

    def launcher(self):
        """The launcher proper: the guard's child."""
        children = [pid for pid in parents().get(self.process.pid, []) if b"launch" in name(pid)]
        return children[0] if children else self.process.pid

    def cut_off(self, cut):
        self.cut = cut
        sh(f"ip link set {RUN}v{self.index} {'down' if cut else 'up'}")

    def slow_down(self, milliseconds):
        sh(f"tc qdisc replace dev {RUN}v{self.index} root netem delay {milliseconds}ms {milliseconds // 2}ms", check=False)


def records():
    for line in TRACE.read_text().splitlines():
        words = line.split()
        if len(words) == 5:
            yield int(words[0]) / 1e9, int(words[1]), int(words[2]), int(words[3]), int(words[4])


def tail_records(since):
    return [r for r in records() if r[0] >= since]


thaws = []      # (moment, pids): what may still write for THAW_SLACK
faults = collections.Counter()
history = []


def note(what):
    history.append(f"{time.monotonic():.3f} {what}")


def fault(nodes, endpoint):
    live = [n for n in nodes if n.alive() and not n.frozen]
    kinds = ["worker"] * 4 + ["launcher"] * 2 + ["guard"] * 2 + ["everything"] * 2 + ["coordinator"] * 3 + ["freeze"] * 2
    if FAKETIME.exists():
        kinds += ["clock"] * 2
    if args.namespaces:
        kinds += ["cut"] * 3 + ["slow"] * 2
    kind = RANDOM.choice(kinds)
    node = RANDOM.choice(nodes)
    # Guard and launcher killed at the same moment may leave a grandchild to the next launcher (documented).
    recently = time.monotonic() - node.hit < 0.3
    if kind != "coordinator" and (node not in live or recently or (len(live) <= 2 and kind != "worker")):
        return
    if kind in ("guard", "launcher"):
        node.hit = time.monotonic()
    faults[kind] += 1
    note(f"{kind} node {node.index}")
    if kind == "worker":
        for pid in under(node.process.pid):
            if name(pid)[:1] == [str(WORKER).encode()]:
                send(pid, signal.SIGKILL)
                break
    elif kind == "launcher":
        send(node.launcher(), signal.SIGKILL)
    elif kind == "guard":
        send(node.process.pid, signal.SIGKILL)
    elif kind == "everything":
        # A machine takes along what was just being forked, too.
        todo = node.everybody()
        while todo:
            for pid in todo:
                send(pid, signal.SIGKILL)
            todo = marked(b"CHAOS_NODE=" + node.last_mark)
    elif kind == "coordinator":
        for pid in [p for n in live for p in under(n.process.pid)]:
            if name(pid)[1:2] == [b"coordinate"]:
                send(pid, signal.SIGKILL)
    elif kind == "freeze":
        node.frozen = node.everybody()
        for pid in node.frozen:
            send(pid, signal.SIGSTOP)
    elif kind == "clock":
        node.set_clock(RANDOM.choice([-86400, -60, 0, 5, 3600, 864000]))
    elif kind == "cut":
        node.cut_off(not node.cut)
    elif kind == "slow":
        node.slow_down(RANDOM.choice([0, 5, 40]))


def repair(nodes, endpoint, everything):
    for node in nodes:
        if node.frozen and (everything or RANDOM.random() < 0.4):
            thaws.append((time.monotonic(), set(node.frozen)))
            note(f"thaw node {node.index}")
            for pid in node.frozen:
                send(pid, signal.SIGCONT)
            node.frozen = []
        if node.cut and (everything or RANDOM.random() < 0.4):
            node.cut_off(False)
            note(f"connect node {node.index}")
        if args.namespaces and everything:
            node.slow_down(0)
        if not node.alive() and (everything or RANDOM.random() < 0.5):
            if node.process is not None:
                node.process.wait()
            note(f"start node {node.index}")
            node.start(endpoint)


def wait_until_all_train(nodes, deadline):
    """All nodes are in one generation and it makes records."""
    end = time.monotonic() + deadline
    seen = []
    while time.monotonic() < end:
        moment = time.monotonic()
        time.sleep(0.05)
        seen = tail_records(moment)
        newest = max((r[1] for r in seen), default=0)
        ranks = {r[2] for r in seen if r[1] == newest and r[3] == len(nodes)}
        if len(ranks) == len(nodes):
            return
        for node in nodes:
            if not node.alive():
                node.process.wait()
                node.start(ENDPOINT)
    fail(f"the job does not train again with all {len(nodes)} nodes within {deadline} s; last records: {seen[-3:]}")


def fail(text):
    print(f"FAILED (seed {args.seed}): {text}\nfolder: {FOLDER}\nfaults: {dict(faults)}", file=sys.stderr)
    print("\n".join(history[-15:]), file=sys.stderr)
    for path in sorted(FOLDER.glob("node*.log")):
        print(f"--- {path.name}\n{path.read_text()[-600:]}", file=sys.stderr)
    cleanup()
    os._exit(1)


def check_records():
    first, last, ranks, worlds = {}, {}, collections.defaultdict(dict), {}
    excused = 0
    for moment, generation, rank, world, pid in records():
        ranks[generation].setdefault(rank, pid)
        if ranks[generation][rank] != pid:
            fail(f"generation {generation}: rank {rank} belongs to processes {ranks[generation][rank]} and {pid}")
        if worlds.setdefault(generation, world) != world or rank >= world:
            fail(f"generation {generation}: rank {rank} of world {world}, elsewhere {worlds[generation]}")
        if any(thawed <= moment <= thawed + THAW_SLACK and pid in pids for thawed, pids in thaws):
            excused += 1
            continue
        first.setdefault(generation, moment)
        first[generation] = min(first[generation], moment)
        last[generation] = max(last.get(generation, 0), moment)
    order = sorted(first)
    for before, after in zip(order, order[1:]):
        if last[before] >= first[after]:
            fail(f"generation {before} trained until {last[before]:.4f}, generation {after} from {first[after]:.4f}")
    return len(order), excused


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def cgroups():
    return [p for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") for p in pathlib.Path(root).glob("**/trainyard-*") if p.is_dir()]


def cleanup():
    for pid in marked():
        send(pid, signal.SIGCONT)
        send(pid, signal.SIGKILL)
    if args.namespaces:
        for index in range(args.nodes):
            sh(f"ip netns del {RUN}n{index}", check=False)
        sh(f"ip link del {RUN}b", check=False)
    if not args.keep:
        shutil.rmtree(FOLDER, ignore_errors=True)


def main():
    global ENDPOINT
    if args.namespaces:
        if os.geteuid() != 0 or shutil.which("ip") is None or sh(f"ip link add {RUN}b type bridge && ip link set {RUN}b up", check=False).returncode != 0:
            print("skipped: network namespaces need root and iproute2")
            sys.exit(77)
    before = set(cgroups())
    ENDPOINT = f"{'10.231.77.1' if args.namespaces else '127.0.0.1'}:{free_port()}"
    nodes = [Node(index) for index in range(args.nodes)]
    for node in nodes:
        node.start(ENDPOINT)
    wait_until_all_train(nodes, 30)
    baseline = max(descriptors(node.launcher()) for node in nodes)
    started = time.monotonic()
    while sum(faults.values()) < args.faults:
        for _ in range(RANDOM.randint(1, 6)):
            fault(nodes, ENDPOINT)
            time.sleep(RANDOM.choice([0, 0, 0.01, 0.05, 0.3]))
            if RANDOM.random() < 0.3:
                repair(nodes, ENDPOINT, everything=False)
        repair(nodes, ENDPOINT, everything=True)
        wait_until_all_train(nodes, 40)
        if check_records()[0] > 400:
            # Start a new page: what has been checked need not be read again.
            moment = time.monotonic()
            kept = [line for line in TRACE.read_text().splitlines(True) if line.endswith("\n") and int(line.split()[0]) / 1e9 > moment - 0.5]
            os.truncate(TRACE, 0)
            with open(TRACE, "a") as file:
                file.writelines(kept)
    seconds = time.monotonic() - started
    leaked = {node.index: descriptors(node.launcher()) for node in nodes}
    if max(leaked.values()) > baseline + 6:
        fail(f"descriptors per launcher: {leaked}, at the beginning at most {baseline}")
    generations, excused = check_records()
    for node in nodes:
        node.process.send_signal(signal.SIGINT)
    for node in nodes:
        try:
            node.process.wait(15)
        except subprocess.TimeoutExpired:
            fail(f"node {node.index} does not end after SIGINT")
    end = time.monotonic() + 1
    while marked() and time.monotonic() < end:
        time.sleep(0.02)
    if marked():
        fail(f"left behind: {[(pid, name(pid)) for pid in marked()]}")
    # What machines that "died" have left is removed by the next launcher on the machine.
    subprocess.run([str(BIN / "trainyard-agent"), "launch", "--no-python", "true"], check=True)
    leftover = set(cgroups()) - before
    if leftover:
        fail(f"cgroups left behind: {sorted(map(str, leftover))[:5]}")
    print(f"{sum(faults.values())} faults in {seconds:.0f} s, seed {args.seed}: {dict(faults)}; generations of the last page {generations}, "
          f"records of thawed workers {excused}; nothing left behind")
    cleanup()


try:
    main()
except BaseException as error:
    if not isinstance(error, SystemExit):
        cleanup()
    raise
