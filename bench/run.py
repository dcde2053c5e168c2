#!/usr/bin/env python3
"""Every figure side by side with its peer, in one run. Usage: run.py BIN [name ...]

Prints a Markdown table and the raw JSON; bench/RESULTS.md keeps the results with date and machine.
Peers come from .venv/bench (moto_server) and Debian packages (gzip, pigz)."""

import gzip
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from report import free_port, row, rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(sys.argv[1]).resolve()
WANTED = sys.argv[2:]
MOTO = ROOT / ".venv/bench/bin/moto_server"
MOTO_KEYS = ("testing", "testing")


def run_json(*argv):
    out = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    if not out.stdout.strip():
        raise RuntimeError(f"{argv[0]}: {out.stderr}")
    if out.stderr:
        print(out.stderr.strip()[:500], file=sys.stderr)
    return json.loads(out.stdout.strip().splitlines()[-1])


def wait_until_answers(url, deadline=30):
    start = time.monotonic()
    while time.monotonic() - start < deadline:
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.001)
    raise RuntimeError(f"{url} does not answer")


class Trainyard:
    """A daemon of its own in a temporary folder."""

    def __init__(self, config=""):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-bench-"))
        (self.home / "config.toml").write_text(config)
        self.port = free_port()
        start = time.monotonic()
        self.process = subprocess.Popen([BIN / "trainyardd", "--home", self.home, "--port", str(self.port)],
                                        stderr=open(self.home / "daemon.log", "w"))
        wait_until_answers(f"http://127.0.0.1:{self.port}/healthz")
        self.start_ms = (time.monotonic() - start) * 1000
        while not (self.home / "daemon.json").exists():
            time.sleep(0.001)
        info = json.loads((self.home / "daemon.json").read_text())
        self.endpoint, self.keys = info["endpoint"], (info["access_key"], info["secret_key"])
        self.s3_put("/bench", b"")

    def rss_mib(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024

    def s3_put(self, path, body):
        sys.path.insert(0, str(ROOT / "bench"))
        from sigv4 import signed_request

        urllib.request.urlopen(signed_request("PUT", self.endpoint + path, body, *self.keys, "s3")).read()

    def close(self):
        subprocess.run([BIN / "trainyard", "down", "--home", self.home], capture_output=True)
        self.process.wait(30)
        subprocess.run("pkill -KILL -f " + str(self.home), shell=True)
        shutil.rmtree(self.home, ignore_errors=True)


class Moto:
    def __init__(self):
        self.port = free_port()
        start = time.monotonic()
        self.process = subprocess.Popen([MOTO, "-p", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.endpoint, self.keys = f"http://127.0.0.1:{self.port}", MOTO_KEYS
        wait_until_answers(self.endpoint + "/moto-api/")
        self.start_ms = (time.monotonic() - start) * 1000
        self.rss = int(next(l for l in open(f"/proc/{self.process.pid}/status") if l.startswith("VmRSS")).split()[1]) / 1024

    def close(self):
        self.process.terminate()
        self.process.wait()


def bench_start():
    ours, rss = [], []
    for _ in range(10):
        yard = Trainyard()
        ours.append(yard.start_ms)
        time.sleep(1)
        rss.append(yard.rss_mib())
        yard.close()
    moto = Moto()
    moto.close()
    mine = statistics.median(ours)
    row("daemon start to first answer", f"{mine:.0f} ms", f"moto_server {moto.start_ms:.0f} ms", f"{moto.start_ms / mine:.0f} x", "< 100 ms")
    row("idle resident memory", f"{statistics.median(rss):.1f} MiB", f"moto_server {moto.rss:.0f} MiB", f"{moto.rss / statistics.median(rss):.1f} x", "< 30 MiB")
    for name, limit in (("trainyardd", 25), ("trainyard-agent", 6)):
        row(f"stripped size of {name}", f"{(BIN / name).stat().st_size / 1e6:.2f} MB", goal=f"< {limit} MB")


def bench_latency():
    yard = Trainyard()
    result = run_json(BIN / "bench_job_latency", yard.endpoint, *yard.keys, 30)
    yard.close()
    row("create accepted → first line of a shell program", f"{result['first_line_ms']:.0f} ms", f"bare sh {result['bare_sh_ms']:.1f} ms", goal="< 100 ms")
    row("create accepted → Completed with artefact", f"{result['completed_ms']:.0f} ms", goal="< 300 ms")


def bench_rates():
    # One slot, held by a job that sleeps: what is created waits, so that creating is what is measured.
    yard = Trainyard("max_running_jobs = 1\n")
    moto = Moto()
    for clients, goal in ((1, 1000), (16, 4000)):
        mine = run_json(BIN / "bench_api_rate", yard.endpoint, *yard.keys, "create", clients, 5, f"c{clients}")
        peer = run_json(BIN / "bench_api_rate", moto.endpoint, *moto.keys, "create", clients, 5, f"c{clients}")
        row(f"durable creates/s, {clients} client(s)", f"{mine['per_second']:,.0f} (p99 {mine['p99_ms']:.1f} ms)",
            f"moto_server {peer['per_second']:,.0f} (in memory)", f"{mine['per_second'] / peer['per_second']:.1f} x", f"≥ {goal:,}")
    for clients in (2, 4):
        mine = run_json(BIN / "bench_api_rate", yard.endpoint, *yard.keys, "describe", clients, 5, "c1")
        peer = run_json(BIN / "bench_api_rate", moto.endpoint, *moto.keys, "describe", clients, 5, "c1")
        row(f"signed describes/s over keep-alive, {clients} clients", f"{mine['per_second']:,.0f} (p99 {mine['p99_ms']:.2f} ms)",
            f"moto_server {peer['per_second']:,.0f}", f"{mine['per_second'] / peer['per_second']:.0f} x", "≥ 10,000")
    moto.close()
    yard.close()


def bench_archive():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-bench-"))
    size = 1_000_000_000
    try:
        subprocess.run([BIN / "bench_make_weights", folder / "weights.bin", str(size)], check=True)
        times = {}
        for name, command in (("ours", [BIN / "bench_archive_rate", folder, "/dev/null"]),
                              ("gzip", f"tar -C {folder} -cf - . | gzip > /dev/null"),
                              ("pigz", f"tar -C {folder} -cf - . | pigz > /dev/null")):
            start = time.monotonic()
            subprocess.run(command, shell=isinstance(command, str), check=True, stdout=subprocess.DEVNULL)
            times[name] = time.monotonic() - start
        row("model.tar.gz of 1 GB of float weights", f"{times['ours']:.2f} s", f"tar + gzip {times['gzip']:.1f} s; pigz {times['pigz']:.1f} s",
            f"{times['gzip'] / times['ours']:.1f} x gzip; {times['pigz'] / times['ours']:.1f} x pigz", "≥ 15 x gzip")
    finally:
        shutil.rmtree(folder)


def bench_logs():
    mine = run_json(BIN / "bench_log_rate")
    row("log lines: append and read back in the store", f"{mine['append_and_read_lines_per_second']:,.0f}/s", goal="≥ 300,000/s")
    mine = run_json(BIN / "bench_metric_rate")
    peer = run_json(sys.executable, ROOT / "bench/load/metric_rate.py")
    row("metric regex lines/s", f"{mine['lines_per_second']:,.0f}", f"Python re {peer['lines_per_second']:,.0f}",
        f"{mine['lines_per_second'] / peer['lines_per_second']:.0f} x", "≥ 20 x")


def bench_pipeline():
    yard = Trainyard()
    result = run_json(BIN / "bench_log_pipeline", yard.endpoint, *yard.keys, 3_000_000)
    yard.close()
    row("log lines from program to GetLogEvents, sustained", f"{result['lines_per_second']:,.0f}/s", goal="≥ 300,000/s")
    row("log line latency, program to GetLogEvents, p99", f"{result['p99_ms']:.0f} ms", goal="< 500 ms")


def bench_list():
    yard = Trainyard()
    run_json(BIN / "bench_job_latency", yard.endpoint, *yard.keys, 1)  # one finished job to copy
    time.sleep(1)
    yard.process.send_signal(signal.SIGTERM)
    yard.process.wait()
    subprocess.run([sys.executable, ROOT / "bench/fill_jobs.py", yard.home / "state.db", "100000"], check=True)
    yard.process = subprocess.Popen([BIN / "trainyardd", "--home", yard.home, "--port", str(yard.port)], stderr=subprocess.DEVNULL)
    wait_until_answers(yard.endpoint + "/healthz")
    result = run_json(BIN / "bench_list_rate", yard.endpoint, *yard.keys, 500)
    row("one ListTrainingJobs page of 100,000 finished jobs, p99", f"{result['p99_ms']:.1f} ms", goal="< 10 ms")
    row("daemon's resident memory with 100,000 finished jobs", f"{yard.rss_mib():.0f} MiB", goal="< 200 MB")
    yard.close()


BENCHES = {"start": bench_start, "latency": bench_latency, "rates": bench_rates, "archive": bench_archive,
           "logs": bench_logs, "pipeline": bench_pipeline, "list": bench_list}

for name, bench in BENCHES.items():
    if WANTED and name not in WANTED:
        continue
    try:
        bench()
    except Exception as error:  # one missing peer must not hide the other figures
        print(f"bench {name} did not run: {error}", file=sys.stderr)

cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
print(f"\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} x {cpu}, Linux {platform.release()}\n")
print("| what | Trainyard | peer | ratio | asked |\n|---|---|---|---|---|")
for cells in rows:
    print("| " + " | ".join(cells) + " |")
