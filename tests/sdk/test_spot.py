# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, managed spot training and retries: what is interrupted goes on, and the seconds are true."""
import json
import time

import pytest

import nodes
import yard

# Counts to 16 in steps that leave time for a checkpoint between them, from the newest checkpoint on.
COUNT = """
folder=${FOLDER:-/opt/ml/checkpoints}
step=0
[ -f $folder/step ] && step=$(cat $folder/step) && echo "resumed at $step"
while [ $step -lt 16 ]; do
    step=$((step + 1))
    echo $step > $folder/.next && mv $folder/.next $folder/step
    echo "step $step"
    sleep 0.4
done
echo $step > /opt/ml/model/step
"""


def test_checkpoints_appear_while_the_program_runs(boxed):
    prefix = yard.fresh("ckpt")
    name = yard.start("sync", "mkdir -p /opt/ml/checkpoints/deep; echo 1 > /opt/ml/checkpoints/deep/a; echo saved; "
                              "sleep 60", **nodes.checkpoints(prefix))
    yard.wait_for_line(name, "saved")
    key = f"{prefix}/deep/a"
    yard.wait_until(lambda: key in yard.keys(prefix), 20, key)
    assert yard.read(key) == b"1\n"
    assert yard.describe(name)["CheckpointConfig"]["S3Uri"] == f"s3://{yard.BUCKET}/{prefix}"
    nodes.stop(name)


def test_what_lies_in_the_prefix_is_there_before_the_program(boxed):
    prefix = yard.fresh("given")
    yard.put(f"{prefix}/model/weights.bin", b"w" * 1000)
    script = "wc -c < /test/checkpoint/path/model/weights.bin; echo new > /test/checkpoint/path/new"
    name = yard.run_shell("given", script, **nodes.checkpoints(prefix, "/test/checkpoint/path"))
    assert "1000" in yard.log_lines(name)
    assert yard.read(f"{prefix}/new") == b"new\n"
    assert yard.read(f"{prefix}/model/weights.bin") == b"w" * 1000


@pytest.fixture(scope="module")
def interrupted(boxed):
    """A finished spot job that was interrupted once after a quarter; its description."""
    prefix = yard.fresh("spot")
    name = yard.start("spot", COUNT, **nodes.spot(), **nodes.checkpoints(prefix))
    yard.wait_for_line(name, "step 4")
    nodes.ask("POST", f"jobs/{name}/interrupt", {"time": 5})
    job = yard.wait(name, 90)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), yard.all_lines(name)[-20:])
    return job


def test_an_interrupted_spot_job_goes_on_from_its_checkpoint(interrupted):
    name = interrupted["TrainingJobName"]
    resumed = [line for line in yard.all_lines(name) if line.startswith("resumed at ")]
    assert len(resumed) == 1 and 4 <= int(resumed[0].split()[-1]) < 16
    assert yard.archive(name)["step"][1] == b"16\n"


def test_transitions_of_an_interruption(interrupted):
    assert nodes.statuses(interrupted) == [
        "Starting", "Downloading", "Training", "Interrupted", "Starting", "Downloading", "Training", "Uploading",
        "Completed"]
    nodes.check_times(interrupted)
    assert "interrupt" in nodes.messages(interrupted, "Interrupted")[0].lower()


def test_the_ledger_of_an_interruption(interrupted):
    name = interrupted["TrainingJobName"]
    document = nodes.ask("GET", f"jobs/{name}/ledger")
    text = json.dumps(document)
    for word in ("useful", "lost", "restart", "idle", "checkpoint", "waiting"):
        assert word in text, document
    shown = yard.cli("ledger", name)
    assert shown.returncode == 0 and "useful" in shown.stdout.lower(), shown.stderr


def test_checkpoints_are_listed(interrupted):
    shown = yard.cli("checkpoints", interrupted["TrainingJobName"])
    assert shown.returncode == 0 and len(shown.stdout.splitlines()) >= 2, shown.stdout + shown.stderr


def test_a_killed_spot_job_goes_on_as_well(boxed):
    prefix = yard.fresh("killed")
    name = yard.start("killed", COUNT, **nodes.spot(), **nodes.checkpoints(prefix))
    yard.wait_for_line(name, "step 6")
    done = yard.cli("interrupt", name, "--kill")
    assert done.returncode == 0, done.stderr
    job = yard.wait(name, 90)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), yard.all_lines(name)[-20:])
    assert "Interrupted" in nodes.statuses(job)
    assert any(line.startswith("resumed at ") for line in yard.all_lines(name))


def test_two_instances_are_interrupted_together(boxed):
    prefix = yard.fresh("pair")
    script = COUNT.replace("$folder/step", "$folder/$(hostname)").replace("/opt/ml/model/step",
                                                                         "/opt/ml/model/$(hostname)")
    name = yard.start("spotpair", script, ResourceConfig=nodes.cluster(2), **nodes.spot(), **nodes.checkpoints(prefix))
    nodes.wait_for_text(name, "step 4", 2)
    nodes.ask("POST", f"jobs/{name}/interrupt", {"node": "algo-2", "time": 5})
    job = yard.wait(name, 120)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), yard.all_lines(name)[-20:])
    assert nodes.statuses(job).count("Interrupted") == 1
    assert {key: member[1] for key, member in yard.archive(name).items()} == {"algo-1": b"16\n", "algo-2": b"16\n"}
    nodes.check_times(job)


def test_the_sdk_prints_the_saving(boxed, tmp_path, capfd):
    from sagemaker.pytorch import PyTorch
    (tmp_path / "train.py").write_text("import time; print('training'); time.sleep(2)")
    estimator = PyTorch(entry_point="train.py", source_dir=str(tmp_path), role=yard.ROLE, image_uri=yard.PYTORCH,
                        instance_count=1, instance_type="ml.m5.xlarge", output_path=yard.OUTPUT,
                        use_spot_instances=True, max_run=60, max_wait=120,
                        checkpoint_s3_uri=f"s3://{yard.BUCKET}/{yard.fresh('saving')}")
    estimator.fit(wait=True, logs="All", job_name=yard.fresh("saving"))
    job = yard.describe(estimator.latest_training_job.name)
    training, billable = job["TrainingTimeInSeconds"], job["BillableTimeInSeconds"]
    shown = capfd.readouterr().out
    assert f"Training seconds: {training}" in shown and f"Billable seconds: {billable}" in shown
    saving = (1 - float(billable) / training) * 100
    assert f"Managed Spot Training savings: {saving:.1f}%" in shown


def test_spot_without_checkpoints_says_so(boxed):
    name = yard.run_shell("bold", "true", **nodes.spot())
    job = yard.describe(name)
    assert "without CheckpointConfig" in " ".join(nodes.messages(job, "Starting"))
    assert any("without CheckpointConfig" in line for line in yard.log_lines(name))


def test_max_wait_ends_a_job_that_waits(boxed):
    blockers = [yard.start("blocker", "echo up; sleep 60") for _ in range(2)]
    for blocker in blockers:
        yard.wait_for_line(blocker, "up")
    name = yard.start("patience", "true", **nodes.spot(2, 1), **nodes.checkpoints(yard.fresh("patience")))
    job = yard.wait(name, 20)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")
    for blocker in blockers:
        nodes.stop(blocker)


def test_max_wait_counts_interruptions(boxed):
    name = yard.start("toolong", "echo up; sleep 60", **nodes.spot(6, 5), **nodes.checkpoints(yard.fresh("toolong")))
    yard.wait_for_line(name, "up")
    nodes.ask("POST", f"jobs/{name}/interrupt", {"time": 1})
    begin = time.monotonic()
    job = yard.wait(name, 40)
    assert time.monotonic() - begin < 30
    assert job["TrainingJobStatus"] == "Stopped"
    assert job["SecondaryStatus"] in ("MaxWaitTimeExceeded", "MaxRuntimeExceeded")


def test_stop_while_waiting_for_a_new_instance(boxed):
    name = yard.start("stopwait", "trap '' TERM; echo up; sleep 60", **nodes.spot(),
                      **nodes.checkpoints(yard.fresh("stopwait")))
    yard.wait_for_line(name, "up")
    nodes.ask("POST", f"jobs/{name}/interrupt", {"time": 3})
    nodes.wait_for_status(name, "Interrupted", "Starting")
    job = nodes.stop(name)
    assert job["TrainingJobStatus"] == "Stopped"
    nodes.check_times(job)


def test_an_error_of_ours_is_retried(boxed):
    script = "cd /opt/ml/checkpoints; [ -f once ] && echo again && exit 0; touch once; echo first; sleep 60"
    name = yard.start("retry", script, RetryStrategy={"MaximumRetryAttempts": 2},
                      **nodes.checkpoints(yard.fresh("retry")))
    prefix = yard.describe(name)["CheckpointConfig"]["S3Uri"].split("/")[-1]
    yard.wait_until(lambda: f"{prefix}/once" in yard.keys(prefix), 20, "the checkpoint")
    kill_agent(name)
    job = yard.wait(name, 60)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert "Restarting" in nodes.statuses(job)
    assert job["RetryStrategy"] == {"MaximumRetryAttempts": 2}
    nodes.check_times(job)


def kill_agent(name):
    """SIGKILL to the job's agent, as if its machine had died; nobody asked for it."""
    import os
    import signal
    from pathlib import Path
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            inside = os.readlink(folder / "cwd")
        except OSError:
            continue
        runs = str(Path(yard.HOME) / "runs")
        if b"trainyard-agent" in words[0] and (runs in inside or any(runs.encode() in word for word in words)):
            os.kill(int(folder.name), signal.SIGKILL)


def test_a_prefix_of_a_running_job_is_refused(boxed):
    config = nodes.checkpoints(yard.fresh("shared"))
    name = yard.start("owner", "echo up; sleep 60", **config)
    code, message, status = yard.error_of(yard.client("sagemaker").create_training_job,
                                          **yard.request_for(yard.fresh("second"), "true", **config))
    assert (code, status) == ("ValidationException", 400) and name in message
    nodes.stop(name)
    yard.run_shell("third", "true", **config)


def test_faults_of_a_job_nobody_knows():
    nodes.ask("POST", "jobs/nobody/interrupt", {}, expect=404)
    assert yard.cli("interrupt", "nobody").returncode != 0
