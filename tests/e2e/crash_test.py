# SPDX-License-Identifier: Apache-2.0
"""kill -9 of daemon, agents, sandboxes and programs at random points, more than 200 times.

While the daemon dies and comes back, jobs must go on as if nothing had happened: no log line and no metric value lost
or doubled, the artefact there, every answered create remembered. When an agent, a sandbox or a program dies, the job
must say so within two seconds, and neither process nor run folder of it may stay.

    crash_test.py BIN [--seed N] [--kills N]
"""
import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "sdk"))

import yard  # noqa: E402
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: E402

SLOTS = 4
CONFIG = f"stop_grace_seconds = 1\nmax_running_jobs = {SLOTS}\n"
MARK = "CRASH_TEST_MARK"  # in the environment of every process of a job; its value is the job's name
TRUTH_SECONDS = float(os.environ.get("TRAINYARD_TRUTH_SECONDS", "2"))  # from the kill to a terminal status
MARGIN_SECONDS = 0.5  # what this test's own requests and looks at /proc may add
CLEAN_SECONDS = 3  # from a terminal status to no process and no run folder
# Lines in handfuls, a process that nobody waits for, a model. About a second.
PROGRAM = ('setsid sleep 600 & i=0;while [ $i -lt {lines} ];do i=$((i+1));echo "line $i metric=$i";'
           '[ $((i%10)) -gt 0 ]||sleep 0.05;done;echo {name}>/opt/ml/model/who')


class Broken(Exception):
    """A promise that was not kept."""


def expect(truth, what):
    if not truth:
        raise Broken(what)


def eventually(check, seconds, what):
    """Look until `check` answers something true."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        expect(time.monotonic() < end, f"{what} within {seconds:g} s")
        time.sleep(0.02)


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
        time.sleep(0.02)


def proc(pid, name):
    """A file of /proc; processes come and go while one looks."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def alive(pid):
    return proc(pid, "cmdline") != b""  # empty for zombies too


def parent(pid):
    found = re.search(rb"^PPid:\s+(\d+)", proc(pid, "status"), re.MULTILINE)
    return int(found[1]) if found else 0


def marked(name):
    """All processes of the job's program: its mark is in their environment."""
    mark = f"{MARK}={name}".encode()
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and mark in proc(pid, "environ").split(b"\0")]


class Yard:
    """One daemon in a temporary home, killed and started again on the same port."""

    def __init__(self, binaries):
        self.binaries = binaries
        self.home = Path(tempfile.mkdtemp(prefix="trainyard-crash-"))
        (self.home / "config.toml").write_text(CONFIG)
        yard.HOME, self.port, self.daemon = self.home, 0, None
        self.up()
        info = json.loads((self.home / "daemon.json").read_text())
        self.port = int(info["endpoint"].rpartition(":")[2])
        for name in [n for n in os.environ if n.startswith(("AWS_", "SAGEMAKER_", "TRAINYARD_"))]:
            del os.environ[name]
        os.environ.update(AWS_ENDPOINT_URL=info["endpoint"], AWS_ACCESS_KEY_ID=info["access_key"],
                          AWS_SECRET_ACCESS_KEY=info["secret_key"], AWS_DEFAULT_REGION=info["region"],
                          AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
        yard.client("s3").create_bucket(Bucket=yard.BUCKET)
        for service in ("sagemaker", "logs", "cloudwatch"):
            yard.client(service)  # made here once, because making clients is not thread-safe

    def up(self):
        with open(self.home / "daemon.log", "ab") as log:
            command = [self.binaries / "trainyardd", "--home", self.home, "--port", str(self.port)]
            self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._answers, 20, "the daemon did not answer after its start")

    def _answers(self):
        expect(self.daemon.poll() is None, f"the daemon ended by itself with {self.daemon.returncode}")
        try:
            info = json.loads((self.home / "daemon.json").read_text())
            if info["pid"] != self.daemon.pid:
                return False
            return urllib.request.urlopen(info["endpoint"] + "/healthz", timeout=5).status == 200
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def kill(self):
        expect(self.daemon.poll() is None, f"the daemon ended by itself with {self.daemon.returncode}")
        self.daemon.kill()
        self.daemon.wait()

    def agent_of(self, name):
        """The pid of the job's agent, 0 before there is one."""
        for path in self.folders(name):
            for file in path.glob("*/agent.pid"):
                try:
                    return int(file.read_text().split()[0])
                except (OSError, IndexError):
                    pass
        return 0

    def folders(self, name):
        with sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True, timeout=10) as db:
            rows = db.execute("select id from job where name = ?", (name,)).fetchall()
        db.close()
        return [path for (job,) in rows for path in (self.home / "runs").glob(f"{job}.*")]

    def family(self, name):
        """{role: pid} of a job whose program runs: agent, sandbox (when it has a process of its own), program."""
        agent = self.agent_of(name)
        for pid in marked(name) if agent else []:
            line, above = [], pid
            while above > 1 and above != agent:
                line.append(above)
                above = parent(above)
            if above == agent and line:
                sandbox = next((p for p in line if f"{MARK}={name}".encode() not in proc(p, "environ")), None)
                program = [p for p in line if p != sandbox and b"metric=" in proc(p, "cmdline")]
                if program:
                    return {"agent": agent, "program": program[-1], **({"sandbox": sandbox} if sandbox else {})}
        return {}

    def close(self):
        if self.daemon.poll() is not None:
            self.up()
        subprocess.run([self.binaries / "trainyard", "down", "--stop-jobs", "--home", self.home], check=False,
                       capture_output=True, timeout=60)
        self.daemon.kill()
        self.daemon.wait()
        shutil.rmtree(self.home, ignore_errors=True)


def request(name, lines):
    asked = yard.request_for(name, PROGRAM.format(name=name, lines=lines), Environment={MARK: name})
    asked["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "m", "Regex": "metric=([0-9]+)"}]
    return asked


def create(name, lines):
    sagemaker = yard.client("sagemaker")

    def once():
        try:
            sagemaker.create_training_job(**request(name, lines))
        except sagemaker.exceptions.ResourceInUse:
            pass  # an earlier attempt was accepted and its answer lost

    patiently(once)


def ended(name, seconds):
    """The description of the job once it is over."""

    def over():
        job = patiently(yard.client("sagemaker").describe_training_job, TrainingJobName=name)
        return job if job["TrainingJobStatus"] in yard.TERMINAL else None

    return eventually(over, seconds, f"{name} did not end")


def metric_values(name):
    """(count, sum) of the job's metric."""
    now = datetime.now(timezone.utc)
    points = patiently(
        yard.client("cloudwatch").get_metric_statistics, Namespace=yard.GROUP, MetricName="m",
        Dimensions=[{"Name": "TrainingJobName", "Value": name}], Period=60, Statistics=["SampleCount", "Sum"],
        StartTime=now - timedelta(hours=1), EndTime=now + timedelta(minutes=2))["Datapoints"]
    return tuple(int(sum(point[what] for point in points)) for what in ("SampleCount", "Sum"))


def check_telemetry(name, lines=None):
    """The log holds lines 1..N in order, once; the metric as many values. `lines`: how many there must be."""
    try:
        messages = patiently(lambda: yard.log_lines(name))
    except ClientError as error:  # killed before it printed anything
        expect(lines is None and error.response["Error"]["Code"] == "ResourceNotFoundException", f"{name}: {error}")
        messages = []
    numbers = [int(text.rpartition("=")[2]) for text in messages if re.fullmatch(r"line \d+ metric=\d+", text)]
    wanted = len(numbers) if lines is None else lines
    if numbers != list(range(1, wanted + 1)):
        missing = sorted(set(range(1, max([wanted, *numbers]) + 1)) - set(numbers))[:5]
        raise Broken(f"{name}: {len(numbers)} log lines, wanted {wanted}; missing {missing}, "
                     f"{len(numbers) - len(set(numbers))} doubled, sorted: {numbers == sorted(numbers)}")
    if lines is not None:  # all is there when the job is Completed; after a kill within a second
        found = metric_values(name)
        expect(found == (wanted, sum(numbers)), f"{name}: (count, sum) of the metric is {found}, of the log "
                                                f"{(wanted, sum(numbers))}")
    eventually(lambda: metric_values(name) == (wanted, sum(numbers)), 1,
               f"{name}: (count, sum) of the metric did not become {(wanted, sum(numbers))}, as the log has it,")


def check_complete(name, job, lines):
    """Everything the program printed and wrote is there, once."""
    expect(job["TrainingJobStatus"] == "Completed", f"{name}: {job['TrainingJobStatus']}, {job.get('FailureReason')}")
    check_telemetry(name, lines)
    who = patiently(lambda: yard.archive(name))["who"][1]
    expect(who == f"{name}\n".encode(), f"{name}: the artefact holds {who!r}")


def check_failed(name, job, role):
    """The status tells what was killed."""
    reason = job.get("FailureReason", "")
    expect(job["TrainingJobStatus"] == "Failed", f"{name}: its {role} was killed, it says {job['TrainingJobStatus']}")
    if role == "program":
        truth = reason.startswith("AlgorithmError") and "SIGKILL" in reason
    else:
        truth = reason.startswith("InternalServerError") or role == "sandbox" and reason.startswith("AlgorithmError")
    expect(truth, f"{name}: its {role} was killed, the reason says: {reason}")
    check_telemetry(name)


def check_gone(trainyard, name):
    """No process and no run folder of the job stays."""
    end = time.monotonic() + CLEAN_SECONDS
    while left := [f"{pid} {proc(pid, 'cmdline')[:60]!r}" for pid in marked(name)] + trainyard.folders(name):
        expect(time.monotonic() < end, f"{name}: left behind: {', '.join(map(str, left))}")
        time.sleep(0.05)


class Tally:
    """What was killed and what is wrong, from all threads."""

    def __init__(self):
        self.lock, self.kills, self.jobs, self.problems, self.truths, self.cut = threading.Lock(), {}, 0, [], [], 0

    def killed(self, role):
        with self.lock:
            self.kills[role] = self.kills.get(role, 0) + 1

    def finished(self, truth=None):
        with self.lock:
            self.jobs += 1
            self.truths += [] if truth is None else [truth]

    def wrong(self, error):
        problem = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
        with self.lock:
            self.problems.append(problem)
        stamp = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        print(f"crash_test: {stamp}: {problem}", flush=True)


def strike(pid):
    """Kill one process; False when it was already gone."""
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def keep_busy(trainyard, worker, stop, running, struck, tally):
    """Jobs one after the other until told to stop; each must end as it should."""
    for number in itertools.count():
        if stop.is_set() or tally.problems:
            return
        name = f"busy-{worker}-{number}"
        try:
            create(name, 200)
            running[worker] = name
            job = ended(name, 60)
            running[worker] = None
            time.sleep(0.05)  # whoever strikes has written it down by now
            if name in struck:
                check_failed(name, job, struck[name])
            else:
                check_complete(name, job, 200)
            if trainyard.daemon.poll() is None:
                check_gone(trainyard, name)
            tally.finished()
        except Exception as error:  # every one is a finding
            tally.wrong(error)


def create_at_the_kill(name, answers):
    try:
        yard.client("sagemaker").create_training_job(**request(name, 3))
        answers[name] = True
    except (ConnectionError, HTTPClientError):
        answers[name] = False


def check_created(trainyard, name, answered, tally):
    """An answered create is remembered; one without an answer happened whole or not at all."""
    try:
        try:
            patiently(yard.client("sagemaker").describe_training_job, TrainingJobName=name)
        except ClientError:
            expect(not answered, f"{name}: created, then the daemon was killed, and nobody knows it now")
            return
        check_complete(name, ended(name, 60), 3)
        check_gone(trainyard, name)
        tally.finished()
    except Exception as error:  # every one is a finding
        tally.wrong(error)


def kill_daemons(trainyard, kills, dice, tally):
    """The daemon dies at random points, often just as jobs are created; sometimes a job is struck while it is away."""
    stop, running, struck, answers = threading.Event(), {}, {}, {}
    workers = [threading.Thread(target=keep_busy, args=(trainyard, n, stop, running, struck, tally))
               for n in range(SLOTS - 1)]
    for worker in workers:
        worker.start()
    try:
        with ThreadPoolExecutor(SLOTS) as pool:
            for number in range(kills):
                time.sleep(dice.uniform(0.0, 0.35))
                creating = number % 2 == 0 and pool.submit(create_at_the_kill, f"created-{number}", answers)
                time.sleep(dice.uniform(0.0, 0.02))
                trainyard.kill()
                tally.killed("daemon")
                victim, role = running.get(dice.randrange(len(workers))), dice.choice(["agent", "sandbox", "program"])
                if dice.random() < 0.15 and victim and (pid := trainyard.family(victim).get(role)) and strike(pid):
                    struck[victim] = role
                    tally.killed(role)
                time.sleep(dice.uniform(0.0, 0.1))
                trainyard.up()
                if creating:
                    creating.result()
                if tally.problems:
                    break
            stop.set()
            for name, answered in list(answers.items()):
                pool.submit(check_created, trainyard, name, answered, tally)
        tally.cut = list(answers.values()).count(False)
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def kill_one(trainyard, role, number, dice, tally):
    """One job, one kill: the truth must be told in time. Every fourth agent dies before its program runs."""
    name = f"struck-{role}-{number}"
    if tally.problems:
        return
    try:
        create(name, 4000)
        if role == "agent" and dice.random() < 0.25:
            pid = eventually(lambda: trainyard.agent_of(name), 20, f"{name}: no agent")
            time.sleep(dice.uniform(0.0, 0.05))
        else:
            family = eventually(lambda: trainyard.family(name), 20, f"{name}: no program")
            time.sleep(dice.uniform(0.0, 0.3))
            role = role if role in family else "agent"  # without namespaces there is no process of the sandbox
            pid = family[role]
        expect(strike(pid), f"{name}: its {role} was gone before the kill")
        started = time.monotonic()
        tally.killed(role)
        job = ended(name, TRUTH_SECONDS + MARGIN_SECONDS)
        truth = time.monotonic() - started
        check_failed(name, job, role)
        check_gone(trainyard, name)
        tally.finished(truth)
    except Exception as error:  # every one is a finding
        tally.wrong(error)


def kill_victims(trainyard, roles, dice, tally):
    dice.shuffle(roles)
    with ThreadPoolExecutor(SLOTS) as pool:
        for number, role in enumerate(roles):
            pool.submit(kill_one, trainyard, role, number, random.Random(dice.random()), tally)


def check_clean(home):
    """At the end no agent and no run folder is left."""
    eventually(lambda: not [*(home / "runs").iterdir()], CLEAN_SECONDS, "run folders were not removed")
    mine = [pid for pid in os.listdir("/proc") if pid.isdigit() and os.fsencode(home / "runs") in proc(pid, "cmdline")]
    expect(not mine, f"agents were left behind: {mine}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=Path)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--kills", type=int, default=210)
    args = parser.parse_args()
    print(f"crash_test: --seed {args.seed} --kills {args.kills}", flush=True)
    dice, tally, started = random.Random(args.seed), Tally(), time.monotonic()
    share = max(1, args.kills * 4 // 21)  # of 210: 130 daemons, 40 agents, 40 programs; 10 sandboxes on top
    trainyard = Yard(args.binaries.resolve())
    try:
        kill_daemons(trainyard, args.kills - 2 * share, dice, tally)
        print(f"crash_test: daemons done after {time.monotonic() - started:.0f} s", flush=True)
        kill_victims(trainyard, ["agent", "program"] * share + ["sandbox"] * (share // 4), dice, tally)
        check_clean(trainyard.home)
    except Exception as error:  # every one is a finding
        tally.wrong(error)
    finally:
        if tally.problems:
            log = shutil.copy(trainyard.home / "daemon.log", Path(tempfile.gettempdir()) / f"crash-{args.seed}.log")
            print(f"{yard.daemon_log_tail()}\ncrash_test: the whole daemon.log: {log}")
        trainyard.close()
    slowest = max(tally.truths, default=0)
    print(f"crash_test: {'FAILED' if tally.problems else 'passed'}: {sum(tally.kills.values())} kills {tally.kills}, "
          f"{tally.cut} creates cut, {tally.jobs} jobs checked, {len(tally.problems)} problems, "
          f"slowest truth {slowest:.2f} s; {time.monotonic() - started:.0f} s, seed {args.seed}")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
