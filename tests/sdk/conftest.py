# SPDX-License-Identifier: Apache-2.0
"""One daemon for the whole session, in a temporary home, with the environment users get."""
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import yard

CONFIG = f"""\
interpreters = ["{yard.ROOT}/.venv/train"]
stop_grace_seconds = 2
max_running_jobs = 2

[instance_map]
"ml.p3.2xlarge" = "cpu"
"""


@pytest.fixture(scope="session", autouse=True)
def daemon():
    """Start the daemon, point this process at it, stop it (and every job) at the end."""
    home = Path(tempfile.mkdtemp(prefix="trainyard-sdk-"))
    (home / "config.toml").write_text(f'algorithms = "{home}/algorithms"\n' + CONFIG)
    for name in [n for n in os.environ if n.startswith(("AWS_", "SAGEMAKER_", "TRAINYARD_HOME"))]:
        del os.environ[name]
    os.environ["TRAINYARD_HOME"] = str(home)
    yard.HOME = home
    try:
        started = yard.cli("up", "--port", "0")
        assert started.returncode == 0, started.stderr
        os.environ.update(json.loads(yard.cli("env", "-o", "json").stdout))
        yard.client("s3").create_bucket(Bucket=yard.BUCKET)
        yield home
    finally:
        try:
            subprocess.run([yard.BIN / "trainyard", "down", "--stop-jobs"], timeout=60, check=False,
                           capture_output=True)
        finally:
            yard.LOG_TAIL = yard.daemon_log_tail()
            shutil.rmtree(home, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    """After a failure, what the daemon said last."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.section("end of daemon.log")
        terminalreporter.write_line(yard.LOG_TAIL or yard.daemon_log_tail())


@pytest.fixture
def bucket():
    """A bucket of the test's own, emptied and removed afterwards."""
    s3 = yard.client("s3")
    name = yard.fresh("b")
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for item in page.get("Contents", []):
            s3.delete_object(Bucket=name, Key=item["Key"])
    s3.delete_bucket(Bucket=name)


@pytest.fixture(scope="session")
def boxed(daemon):
    """Skips where the kernel forbids namespaces: programs are then not isolated, and doctor says so."""
    name = yard.run_shell("rung", "hostname")
    if yard.log_lines(name)[-1:] != ["algo-1"]:
        pytest.skip("this machine does not allow namespaces")
