# SPDX-License-Identifier: Apache-2.0
"""kill -9 of daemon, agents, sandboxes and programs at random points, at least 200 times.

While the daemon dies and comes back again and again, jobs must go on as if nothing had happened: no log line and no
metric value lost or doubled, the artefact there. When an agent, a sandbox or a program dies, the job must say so within
seconds, and none of its processes may live on.

    crash_test.py [--seed N] [--daemon-kills N] [--victim-kills N]
"""
import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "sdk"))

import yard  # noqa: E402
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: E402

CONFIG = "stop_grace_seconds = 1\nmax_running_jobs = 4\n"
LINES = 150
TRUTH_SECONDS = float(os.environ.get("TRAINYARD_TRUTH_SECONDS", "2"))
COUNTING = 'i=0;while [ $i -lt {lines} ];do i=$((i+1));echo "{name} n=$i";sleep 0.005;done;echo {name}>/opt/ml/model/who'


class Broken(Exception):
    """A promise that was not kept."""


def expect(truth, what):
    if not truth:
        raise Broken(what)


def patiently(call, seconds=30, **parameters):
    """Repeat a request while the daemon is down."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call(**parameters)
        except (ConnectionError, HTTPClientError):
            if time.monotonic() > end:
                raise
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503 or time.monotonic() > end:
                raise
        time.sleep(0.03)


class Processes:
    """What /proc says; processes come and go while one looks."""

    @staticmethod
    def _read(pid, name):
        try:
            return Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            return b""

    @classmethod
    def with_text(cls, text):
        """Processes whose command line holds the text, this test's own excepted."""
        pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        found = ((pid, cls._read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")) for pid in pids)
        return [pid for pid, line in found if text in line and pid != os.getpid()]

    @classmethod
    def parent(cls, pid):
        found = re.search(rb"^PPid:\s+(\d+)", cls._read(pid, "status"), re.MULTILINE)
        return int(found[1]) if found else 0

    @classmethod
    def is_agent(cls, pid):
        try:
            return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("trainyard-agent")
        except OSError:
            return False

    @classmethod
    def family(cls, name):
        """{role: pid} of a job with its program running: agent, sandbox (if it has a process of its own), program."""
        programs = [pid for pid in cls.with_text(f"{name} n=") if not cls.is_agent(pid)]
        if not programs:
            return {}
        above, pid = [], cls.parent(programs[0])
        while pid > 1:
            above.append(pid)
            pid = cls.parent(pid)
        agents = [pid for pid in above if cls.is_agent(pid)]
        if not agents:
            return {}
        family = {"program": programs[0], "agent": agents[-1]}
        if len(agents) > 1:
            family["sandbox"] = agents[0]
        return family


class Yard:
    """One Trainyard in a temporary home, killed and started again."""

    def __init__(self):
        self.home = Path(tempfile.mkdtemp(prefix="trainyard-crash-"))
        (self.home / "config.toml").write_text(CONFIG)
        for name in [n for n in os.environ if n.startswith(("AWS_", "SAGEMAKER_", "TRAINYARD_HOME"))]:
            del os.environ[name]
        os.environ["TRAINYARD_HOME"] = str(self.home)
        yard.HOME = self.home
        self.up("--port", "0")
        os.environ.update(json.loads(yard.cli("env", "-o", "json").stdout))
        yard.client("s3").create_bucket(Bucket=yard.BUCKET)
        for service in ("sagemaker", "logs", "cloudwatch"):
            yard.client(service)  # made here once, because making clients is not thread-safe

    def up(self, *options):
        started = yard.cli("up", *options)
        expect(started.returncode == 0, f"trainyard up failed: {started.stderr}")

    def kill(self):
        os.kill(json.loads((self.home / "daemon.json").read_text())["pid"], signal.SIGKILL)

    def close(self):
        yard.cli("up")  # it may lie dead
        yard.cli("down", "--stop-jobs")
        shutil.rmtree(self.home, ignore_errors=True)


def create(name, lines):
    request = yard.request_for(name, COUNTING.format(name=name, lines=lines))
    request["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "n", "Regex": "n=([0-9]+)"}]
    sagemaker = yard.client("sagemaker")

    def once():
        try:
            sagemaker.create_training_job(**request)
        except sagemaker.exceptions.ResourceInUse:
            pass  # an earlier attempt was accepted and its answer lost

    patiently(once)


def ended(name, seconds):
    """The description of the job once it is over."""
    end = time.monotonic() + seconds
    while True:
        job = patiently(yard.client("sagemaker").describe_training_job, TrainingJobName=name)
        if job["TrainingJobStatus"] in yard.TERMINAL:
            return job
        expect(time.monotonic() < end, f"{name} is still {job['SecondaryStatus']} after {seconds:.1f} s")
        time.sleep(0.03)


def numbers_in_log(name):
    messages = patiently(lambda: yard.log_lines(name))
    return [int(text.rpartition("n=")[2]) for text in messages if text.startswith(f"{name} n=")]


def check_numbers(name, numbers, count):
    wanted = list(range(1, count + 1))
    if numbers != wanted:
        missing, doubled = sorted(set(wanted) - set(numbers))[:5], len(numbers) - len(set(numbers))
        raise Broken(f"{name}: {len(numbers)} log lines instead of {count}; missing {missing}, {doubled} doubled")


def check_complete(name, job):
    """Everything the program printed and wrote is there, once."""
    expect(job["TrainingJobStatus"] == "Completed", f"{name}: {job['TrainingJobStatus']}, {job.get('FailureReason')}")
    check_numbers(name, numbers_in_log(name), LINES)
    now = datetime.now(timezone.utc)
    points = patiently(
        yard.client("cloudwatch").get_metric_statistics, Namespace=yard.GROUP, MetricName="n",
        Dimensions=[{"Name": "TrainingJobName", "Value": name}], Period=60, Statistics=["SampleCount", "Sum"],
        StartTime=now - timedelta(hours=1), EndTime=now + timedelta(minutes=2))["Datapoints"]
    samples, total = (int(sum(point[what] for point in points)) for what in ("SampleCount", "Sum"))
    expect((samples, total) == (LINES, LINES * (LINES + 1) // 2),
           f"{name}: {samples} metric values with sum {total} instead of {LINES}")
    who = patiently(lambda: yard.archive(name))["who"][1]
    expect(who == f"{name}\n".encode(), f"{name}: the artefact holds {who!r}")


def check_gone(name):
    """No process of the job lives on."""
    end = time.monotonic() + TRUTH_SECONDS
    while left := Processes.with_text(f"{name} n="):
        expect(time.monotonic() < end, f"{name}: processes {left} were left behind")
        time.sleep(0.02)


class Tally:
    """What was killed and what is wrong, from all threads."""

    def __init__(self):
        self.lock, self.kills, self.jobs, self.problems, self.slowest = threading.Lock(), {}, 0, [], 0.0

    def killed(self, role):
        with self.lock:
            self.kills[role] = self.kills.get(role, 0) + 1

    def finished(self, seconds=0.0):
        with self.lock:
            self.jobs += 1
            self.slowest = max(self.slowest, seconds)

    def wrong(self, problem):
        with self.lock:
            self.problems.append(problem)
        print(f"crash_test: {problem}", flush=True)


def strike(role, name, tally):
    """Kill one process of the job; False when it was already gone."""
    pid = Processes.family(name).get(role)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    tally.killed(role)
    return True


def keep_busy(worker, stop, running, struck, tally):
    """Jobs one after the other until told to stop; each must end as it should."""
    for number in itertools.count():
        if stop.is_set() or tally.problems:
            return
        name = f"crash-{worker}-{number}"
        try:
            create(name, LINES)
            running[worker] = name
            job = ended(name, 60)
            running[worker] = None
            if job["TrainingJobStatus"] == "Failed" and name in struck:
                expect(job.get("FailureReason"), f"{name}: failed without a reason")
                numbers = numbers_in_log(name)
                check_numbers(name, numbers, len(numbers))
            else:
                check_complete(name, job)
            check_gone(name)
            tally.finished()
        except Exception as error:  # every one is a finding
            tally.wrong(f"{type(error).__name__}: {error}" if not isinstance(error, Broken) else str(error))


def kill_daemons(trainyard, kills, dice, tally):
    """The daemon dies at random points; now and then something of a job dies while it is away."""
    stop, running, struck = threading.Event(), {}, set()
    workers = [threading.Thread(target=keep_busy, args=(n, stop, running, struck, tally)) for n in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.0, 0.5))
            trainyard.kill()
            tally.killed("daemon")
            victim = running.get(dice.randrange(len(workers)))
            if dice.random() < 0.15 and victim:
                struck.add(victim)
                strike(dice.choice(["agent", "sandbox", "program"]), victim, tally)
            time.sleep(dice.uniform(0.0, 0.15))
            trainyard.up()
            if tally.problems:
                break
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def kill_one(role, number, delay, tally):
    """One job, one kill: the truth must be told in time."""
    name = f"struck-{role}-{number}"
    try:
        create(name, 4000)
        end = time.monotonic() + 20
        while not Processes.family(name):
            expect(time.monotonic() < end, f"{name}: the program did not start within 20 s")
            time.sleep(0.02)
        time.sleep(delay)
        role = role if role in Processes.family(name) else "agent"  # without namespaces there is no sandbox process
        expect(strike(role, name, tally), f"{name}: no {role} to kill")
        started = time.monotonic()
        job = ended(name, TRUTH_SECONDS)
        tally.finished(time.monotonic() - started)
        expect(job["TrainingJobStatus"] == "Failed", f"{name}: ended as {job['TrainingJobStatus']}")
        reason = job.get("FailureReason", "")
        if role == "program":
            expect("SIGKILL" in reason or "137" in reason, f"{name}: the reason does not name the signal: {reason}")
        if role == "agent":
            expect("agent" in reason, f"{name}: the reason does not name the agent: {reason}")
        expect(reason, f"{name}: failed without a reason")
        check_gone(name)
        numbers = numbers_in_log(name)
        check_numbers(name, numbers, len(numbers))
    except Exception as error:  # every one is a finding
        tally.wrong(f"{type(error).__name__}: {error}" if not isinstance(error, Broken) else str(error))


def kill_victims(kills, dice, tally):
    roles = itertools.cycle(["program", "agent", "sandbox"])
    with ThreadPoolExecutor(3) as pool:
        for number in range(kills):
            pool.submit(kill_one, next(roles), number, dice.uniform(0.0, 0.3), tally)


def check_clean(home, tally):
    """At the end nothing of Trainyard's jobs is left: no agent, no run folder."""
    end = time.monotonic() + 10
    while True:
        agents = [pid for pid in Processes.with_text(str(home)) if Processes.is_agent(pid)]
        folders = [path.name for path in (home / "runs").glob("*")]
        if not agents and not folders:
            return
        if time.monotonic() > end:
            tally.wrong(f"left behind: agents {agents}, run folders {folders[:5]}")
            return
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--daemon-kills", type=int, default=130)
    parser.add_argument("--victim-kills", type=int, default=72)
    args = parser.parse_args()
    print(f"crash_test: --seed {args.seed}", flush=True)
    dice, tally, started = random.Random(args.seed), Tally(), time.monotonic()
    trainyard = Yard()
    try:
        kill_daemons(trainyard, args.daemon_kills, dice, tally)
        middle = time.monotonic()
        if not tally.problems:
            kill_victims(args.victim_kills, dice, tally)
        check_clean(trainyard.home, tally)
        if tally.problems:
            print(yard.daemon_log_tail())
    finally:
        trainyard.close()
    print(f"crash_test: {sum(tally.kills.values())} kills {tally.kills}, {tally.jobs} jobs checked, slowest truth "
          f"{tally.slowest:.2f} s; {middle - started:.0f} + {time.monotonic() - middle:.0f} s")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
