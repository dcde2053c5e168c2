# SPDX-License-Identifier: Apache-2.0
"""The AWS CLI and our own, as commands with their exit codes."""
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import yard

AWS = Path(sys.executable).parent / "aws"


def aws(*words, expect=0, stdin=None):
    """Output of one AWS CLI command."""
    done = subprocess.run([str(AWS), *words], input=stdin, capture_output=True, check=False, timeout=60)
    assert done.returncode == expect, done.stderr.decode() + done.stdout.decode()
    return (done.stdout if expect == 0 else done.stderr).decode()


def test_s3_commands(tmp_path):
    bucket = yard.fresh("cli")
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("A")
    (tmp_path / "sub" / "b c.txt").write_text("BC")
    aws("s3", "mb", f"s3://{bucket}")
    aws("s3", "cp", "-", f"s3://{bucket}/stdin", stdin=b"piped")
    aws("s3", "sync", str(tmp_path), f"s3://{bucket}/tree")
    assert aws("s3", "sync", str(tmp_path), f"s3://{bucket}/tree") == ""  # nothing changed, nothing copied
    listing = aws("s3", "ls", "--recursive", f"s3://{bucket}")
    assert [line.split(None, 3)[3] for line in listing.splitlines()] == ["stdin", "tree/a.txt", "tree/sub/b c.txt"]
    assert "PRE sub/" in aws("s3", "ls", f"s3://{bucket}/tree/")
    assert aws("s3", "cp", f"s3://{bucket}/tree/sub/b c.txt", "-") == "BC"
    aws("s3", "mv", f"s3://{bucket}/stdin", f"s3://{bucket}/moved")
    aws("s3", "rm", "--recursive", f"s3://{bucket}/tree")
    assert yard.keys("", bucket) == ["moved"]
    aws("s3", "rb", "--force", f"s3://{bucket}")
    assert "NoSuchBucket" in aws("s3", "ls", f"s3://{bucket}", expect=254 if b"aws-cli/2" in version() else 255)


def version():
    done = subprocess.run([str(AWS), "--version"], capture_output=True, check=False)
    return done.stdout + done.stderr


def test_sagemaker_sts_and_logs_commands(tmp_path):
    name = yard.fresh("awscli")
    request = tmp_path / "job.json"
    request.write_text(json.dumps(yard.request_for(name, "echo by command line")))
    arn = json.loads(aws("sagemaker", "create-training-job", "--cli-input-json", f"file://{request}"))["TrainingJobArn"]
    yard.wait(name)
    assert json.loads(aws("sagemaker", "describe-training-job", "--training-job-name", name))["TrainingJobArn"] == arn
    rows = json.loads(aws("sagemaker", "list-training-jobs", "--name-contains", name, "--status-equals", "Completed",
                          "--creation-time-after", "2020-01-01", "--max-items", "5"))["TrainingJobSummaries"]
    assert [row["TrainingJobName"] for row in rows] == [name]
    caller = json.loads(aws("sts", "get-caller-identity"))
    assert caller["Account"] == yard.ACCOUNT and caller["Arn"].startswith("arn:aws:")
    lines = aws("logs", "filter-log-events", "--log-group-name", yard.GROUP, "--log-stream-name-prefix", name,
                "--query", "events[].message", "--output", "text")
    assert "by command line" in lines


# ---- our own command


@pytest.fixture(scope="module")
def jobs(daemon):
    """One completed, one failed, one stopped job."""
    stopped = yard.start("clistop", "echo up; sleep 60")
    done = {"completed": yard.run_shell("clidone", "echo all well; echo m > /opt/ml/model/m"),
            "failed": yard.run_shell("clifail", "echo it broke >&2; exit 5", expect="Failed"), "stopped": stopped}
    yard.wait_for_line(stopped, "up")
    result = yard.cli("stop", "--wait", stopped)
    assert result.returncode == 0 and "Stopped" in result.stdout, result.stderr
    return done


@pytest.mark.parametrize("which, code, line", [("completed", 0, "all well"), ("failed", 20, "it broke"),
                                               ("stopped", 21, "up")])
def test_following_a_log_ends_with_the_jobs_own_status(jobs, which, code, line):
    result = yard.cli("logs", "-f", jobs[which])
    assert result.returncode == code
    assert line in result.stdout.splitlines()
    assert line not in result.stderr.splitlines()
    assert yard.cli("logs", jobs[which]).returncode == 0


def test_following_a_running_job_prints_lines_as_they_come():
    name = yard.start("live", "echo first; sleep 0.6; echo last; exit 3")
    result = []
    thread = threading.Thread(target=lambda: result.append(yard.cli("logs", "--follow", name)))
    thread.start()
    thread.join(30)
    assert result[0].returncode == 20
    assert [line for line in result[0].stdout.splitlines() if line in ("first", "last")] == ["first", "last"]
    assert "exit code: 3" in result[0].stderr


def test_jobs_and_describe_as_json_and_as_text(jobs):
    rows = json.loads(yard.cli("jobs", "-o", "json", "--name-contains", jobs["failed"]).stdout)
    assert [(row["TrainingJobName"], row["TrainingJobStatus"]) for row in rows] == [(jobs["failed"], "Failed")]
    assert yard.cli("jobs", "--names", "--status", "Stopped").stdout.split()[0] == jobs["stopped"]
    assert jobs["completed"] in yard.cli("jobs").stdout
    job = json.loads(yard.cli("describe", "-o", "json", jobs["failed"]).stdout)
    assert job["FailureReason"] == "AlgorithmError: it broke, exit code: 5"
    text = yard.cli("describe", jobs["failed"]).stdout
    assert "it broke" in text and "Failed" in text and "trainyard/host" in text
    assert "model.tar.gz" in yard.cli("describe", jobs["completed"]).stdout


def test_exit_codes_of_mistakes(tmp_path):
    assert yard.cli("jobs", "--no-such-flag").returncode == 2
    assert yard.cli("no-such-verb").returncode == 2
    assert yard.cli("describe").returncode == 2
    assert yard.cli().returncode == 2
    assert yard.cli("--help").returncode == 0
    for verb in ("describe", "logs", "stop"):
        result = yard.cli(verb, "nobody")
        assert result.returncode == 3, (verb, result)
        assert "nobody" in result.stderr and "why:" in result.stderr and "remedy:" in result.stderr
        assert result.stdout == ""
    for verb in (["jobs"], ["env"], ["logs", "-f", "x"]):
        result = yard.cli(*verb, home=tmp_path / "nowhere")
        assert result.returncode == 4, (verb, result)
        assert "trainyard up" in result.stderr


def test_up_twice_is_fine_and_env_is_shell():
    result = yard.cli("up")
    assert result.returncode == 0 and "already running" in result.stdout
    script = f'eval "$({yard.BIN}/trainyard env)" && echo "$AWS_ENDPOINT_URL" && [ -z "${{AWS_PROFILE:-}}" ] && ' \
             '[ -r "$AWS_CA_BUNDLE" ] && [ -r "$SAGEMAKER_USER_CONFIG_OVERRIDE" ] && [ -r "$AWS_CONFIG_FILE" ]'
    for shell in ("bash", "sh"):
        done = subprocess.run([shell, "-euc", script], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "TRAINYARD_HOME": str(yard.HOME), "AWS_PROFILE": "other"})
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("http://127.0.0.1:")


def test_completion_is_valid_shell():
    script = f"set -eu; source <({yard.BIN}/trainyard completion bash); complete -p trainyard"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "trainyard" in done.stdout
    assert "#compdef trainyard" in yard.cli("completion", "zsh").stdout
    assert yard.cli("completion", "fish").returncode == 2


def test_doctor_names_rung_disk_and_environments():
    result = yard.cli("doctor", "-o", "json")
    rows = {row["subject"]: row for row in json.loads(result.stdout)}
    assert rows["daemon"]["state"] == "ok" and rows["disk"]["state"] == "ok"
    assert any("sandbox" in subject for subject in rows)
    assert rows["environment pytorch"]["state"] == "ok"
    assert ".venv/train" in rows["environment pytorch"]["text"]
    assert result.returncode in (0, 1)
    assert "FINDING" in yard.cli("doctor").stdout
