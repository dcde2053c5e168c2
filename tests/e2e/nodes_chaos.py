# SPDX-License-Identifier: Apache-2.0
"""Random faults over running jobs of several nodes: none may be lost, stuck or doubled, and each must tell the truth.

Struck are agents, sandboxes, programs, networks of jobs, the daemon (killed, or only slow to answer), and nodes through
`trainyard interrupt` (notice, kill, freeze, partition). Fixed jobs are spot jobs of two instances, elastic ones have one to
three. Every job must end Completed, except a fixed one whose program was killed; its steps must follow each other without
a gap, no two runs of a host may overlap, and what is left behind afterwards is nothing.

    nodes_chaos.py BIN [--faults N] [--seed N] [--jobs N]
"""
import argparse
import os
import random
import re
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import crash_test  # noqa: E402
from crash_test import Broken, Tally, check_gone, eventually, expect, marked, patiently, proc, strike  # noqa: E402

yard = crash_test.yard
MARK = crash_test.MARK
STEPS = 60
THAWED = 0.3  # seconds
# One file, replaced as a whole; what comes back must be one that was written.
PROGRAM = r"""
import json, os, socket, sys, time, uuid, zlib
host, run, steps = os.environ.get("GROUP_RANK", socket.gethostname()), uuid.uuid4().hex[:8], int(sys.argv[1])
path = "/opt/ml/checkpoints/state-%s.json" % host
step = 0
if os.path.exists(path):
    kept = json.load(open(path))
    if zlib.crc32(("%d%s" % (kept["step"], kept["pad"])).encode()) != kept["sum"]:
        print("TORN", host, kept["step"], flush=True)
        sys.exit(9)
    step = kept["step"]
else:
    kept = None
print("run", host, run, step, "%.3f" % time.time(), flush=True)
while step < steps:
    time.sleep(0.03)
    step += 1
    print("step", host, run, step, "%.3f" % time.time(), flush=True)
    if step % 10 == 0 or step == steps:
        pad = "x" * 100000
        json.dump({"step": step, "pad": pad, "sum": zlib.crc32(("%d%s" % (step, pad)).encode())}, open(path + ".tmp", "w"))
        os.rename(path + ".tmp", path)
open("/opt/ml/model/done-" + socket.gethostname(), "w").write(run)
print("done", host, run, flush=True)
"""


def request(name, elastic):
    algorithm = yard.algorithm("true")
    start = "torchrun --nproc_per_node 1" if elastic else "python3"
    import base64
    text = base64.b64encode(PROGRAM.encode()).decode()
    line = f'printf %s "$@" | base64 -d > /tmp/p.py && exec {start} /tmp/p.py {STEPS}'
    algorithm["ContainerEntrypoint"] = ["/bin/sh", "-c", line, "sh"]
    algorithm["ContainerArguments"] = [text[at:at + 250] for at in range(0, len(text), 250)]
    return yard.request_for(
        name, AlgorithmSpecification=algorithm, Environment={MARK: name}, EnableManagedSpotTraining=True,
        ResourceConfig={"InstanceType": "ml.m5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 10},
        StoppingCondition={"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 900},
        CheckpointConfig={"S3Uri": f"s3://{yard.BUCKET}/checkpoints/{name}"},
        Tags=[{"Key": "trainyard:elastic", "Value": "1:3:1000"}] if elastic else [])


def check_steps(name, elastic):
    """Every step was made, no run began after a gap, no two runs of one rank overlap."""
    runs = {}
    for text in patiently(lambda: yard.all_lines(name)):
        expect(not text.startswith("TORN"), f"{name}: restored a torn checkpoint: {text}")
        found = re.fullmatch(r"(run|step) (\S+) (\w+) (\d+) ([\d.]+)", text.strip())
        if found:
            runs.setdefault((found[2], found[3]), []).append((float(found[5]), int(found[4]), found[1]))
    by_host = {}
    for (host, run), moments in runs.items():
        by_host.setdefault(host, []).append((sorted(moments), run))
    expect(by_host, f"{name}: no steps in its log")
    ranks = ["0"] if elastic else ["algo-1", "algo-2"]
    for host in ranks:
        made, before, reached = set(), [], 0
        for moments, run in sorted(by_host.get(host, [])):
            # A node that stood still may move for a moment before its launcher, thawed with it, ends it.
            late = [moment for moment, _, _ in before if moment > moments[0][0] + 0.001]
            expect(not late or elastic and late[-1] - late[0] < THAWED, f"{name}: two runs of {host} at once ({run}): {late}")
            begin = moments[0][1] if moments[0][2] == "run" else moments[0][1] - 1
            expect(begin <= reached, f"{name}: {host} begins after step {begin} and only {reached} were made")
            steps = [step for _, step, what in moments if what == "step"]
            made.update(steps)
            reached = max([reached, *steps])
            before = moments
        expect(made == set(range(1, STEPS + 1)), f"{name}: {host} made {len(made)} of {STEPS} steps")


def check_transitions(name, job, hits):
    transitions = job["SecondaryStatusTransitions"]
    for one, other in zip(transitions, transitions[1:]):
        expect(one["EndTime"] == other["StartTime"], f"{name}: transitions are not contiguous: {transitions}")
    interrupted = sum(each["Status"] == "Interrupted" for each in transitions)
    expect(interrupted <= hits, f"{name}: {interrupted} interruptions and only {hits} faults hit it")
    seconds = job["TrainingTimeInSeconds"]
    expect(0 < job["BillableTimeInSeconds"] <= seconds, f"{name}: billable {job['BillableTimeInSeconds']} of {seconds}")
    wall = (transitions[-1]["EndTime"] - transitions[0]["StartTime"]).total_seconds()
    expect(seconds <= wall + 2, f"{name}: {seconds} training seconds in {wall:.1f} s")


class Field:
    """The jobs that run, and what hit them."""

    def __init__(self):
        self.lock, self.running, self.hits, self.lethal = threading.Lock(), {}, {}, set()

    def hit(self, name, lethal=False):
        with self.lock:
            self.hits[name] = self.hits.get(name, 0) + 1
            if lethal:
                self.lethal.add(name)


def keep_busy(trainyard, worker, stop, field, tally):
    number = 0
    while not stop.is_set() and not tally.problems:
        number += 1
        elastic = (worker + number) % 2 == 0
        name = f"chaos-{'elastic' if elastic else 'fixed'}-{worker}-{number}"
        try:
            sagemaker = yard.client("sagemaker")

            def once():
                try:
                    sagemaker.create_training_job(**request(name, elastic))
                except sagemaker.exceptions.ResourceInUse:
                    pass

            patiently(once)
            field.running[worker] = name
            job = crash_test.ended(name, 180)
            field.running.pop(worker, None)
            time.sleep(0.1)  # whoever strikes has written it down by now
            if name in field.lethal and job["TrainingJobStatus"] == "Failed":
                expect("SIGKILL" in job["FailureReason"] or "137" in job["FailureReason"],
                       f"{name}: its program was killed, the reason says {job['FailureReason']}")
            else:
                expect(job["TrainingJobStatus"] == "Completed",
                       f"{name}: {job['TrainingJobStatus']}, {job.get('FailureReason')}; "
                       f"{[(t['Status'], t['StatusMessage']) for t in job['SecondaryStatusTransitions']][-6:]}")
                check_steps(name, elastic)
                members = patiently(lambda: yard.archive(name))
                if not elastic:
                    expect({"done-algo-1", "done-algo-2"} <= set(members), f"{name}: the artefact holds {sorted(members)}")
            check_transitions(name, job, field.hits.get(name, 0))
            if trainyard.daemon.poll() is None:
                check_gone(trainyard, name)
            tally.finished()
        except Exception as error:  # every one is a finding
            tally.wrong(error)


def agents(trainyard, name, what="agent"):
    """Pids of the job's agents or of its network process."""
    found = []
    for path in trainyard.folders(name):
        for file in path.glob("*/agent.pid"):
            if (file.parent.name == "network") == (what == "network"):
                try:
                    found.append(int(file.read_text().split()[0]))
                except (OSError, IndexError, ValueError):
                    pass
        if what == "network":
            for file in path.glob("network/engine.pid"):
                try:
                    found.append(int(file.read_text().split()[0]))
                except (OSError, IndexError, ValueError):
                    pass
    return [pid for pid in found if proc(pid, "cmdline")]


def fault(trainyard, kind, name, dice, field, tally):
    """One fault; True when it hit something."""
    if kind == "daemon":
        trainyard.kill()
        time.sleep(dice.uniform(0.0, 0.5))
        trainyard.up()
        return True
    if kind == "slow daemon":
        os.kill(trainyard.daemon.pid, signal.SIGSTOP)
        time.sleep(dice.uniform(0.5, 3.0))
        os.kill(trainyard.daemon.pid, signal.SIGCONT)
        return True
    if kind in ("agent", "network"):
        pids = agents(trainyard, name, kind)
        field.hit(name)
        return bool(pids) and strike(dice.choice(pids))
    if kind in ("program", "sandbox"):
        found = programs = [pid for pid in marked(name) if b"p.py" in proc(pid, "cmdline")]
        if kind == "sandbox":  # the process above those that are marked
            found = [above for pid in programs if (above := crash_test.parent(pid)) > 1 and above not in programs]
        field.hit(name, lethal=True)
        return bool(found) and strike(dice.choice(found))
    words = {"notice": ["--notice", f"{dice.randrange(0, 1500)}ms"], "kill": ["--kill"],
             "freeze": ["--freeze", f"{dice.randrange(200, 3000)}ms"],
             "partition": ["--partition", f"{dice.randrange(200, 3000)}ms"]}[kind]
    field.hit(name)
    return yard.cli("interrupt", name, *words, home=trainyard.home).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=Path)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", help="one kind of fault")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    options = parser.parse_args()
    os.environ["TRAINYARD_BIN"] = str(options.bin.resolve())
    yard.BIN = options.bin.resolve()
    dice, tally, field, stop = random.Random(options.seed), Tally(), Field(), threading.Event()
    print(f"nodes_chaos: seed {options.seed}", flush=True)
    trainyard = crash_test.Yard(options.bin.resolve())
    kinds = ["agent", "agent", "network", "program", "sandbox", "daemon", "slow daemon", "notice", "notice", "kill",
             "freeze", "partition"]
    begun = time.monotonic()
    workers = [threading.Thread(target=keep_busy, args=(trainyard, n, stop, field, tally)) for n in range(options.jobs)]
    for worker in workers:
        worker.start()
    try:
        struck = 0
        while struck < options.faults and not tally.problems:
            time.sleep(dice.uniform(0.1, 1.0))
            running = list(field.running.values())
            kind = options.only or dice.choice(kinds)
            if running and fault(trainyard, kind, dice.choice(running), dice, field, tally):
                tally.killed(kind)
                struck += 1
    except Exception as error:  # every one is a finding
        tally.wrong(error)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
        if options.keep:
            print(f"nodes_chaos: kept {trainyard.home}", flush=True)
            trainyard.daemon.kill()
        else:
            trainyard.close()
    print(f"nodes_chaos: {sum(tally.kills.values())} faults {tally.kills} over {tally.jobs} jobs in "
          f"{time.monotonic() - begun:.0f} s, {len(tally.problems)} problems", flush=True)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
