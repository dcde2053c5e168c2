# SPDX-License-Identifier: Apache-2.0
"""The life of a job: phases, ends, reasons, artefacts, metrics."""
import os
import re
import stat
import struct
import time

import pytest
from botocore.exceptions import WaiterError

import yard

NAMES = ["Starting", "Downloading", "Training", "Uploading"]


def statuses(job):
    return [entry["Status"] for entry in job["SecondaryStatusTransitions"]]


def check_transitions(job):
    """Contiguous, all with a message, the last one as short as possible, in step with the other times."""
    entries = job["SecondaryStatusTransitions"]
    for entry, following in zip(entries, entries[1:]):
        assert entry["EndTime"] == following["StartTime"]
    assert all(entry["StatusMessage"] for entry in entries)
    assert entries[-1]["EndTime"] == entries[-1]["StartTime"]
    assert entries[0]["StartTime"] == job["CreationTime"]
    assert job["SecondaryStatus"] == entries[-1]["Status"]
    assert job["LastModifiedTime"] >= entries[-1]["StartTime"]


def test_a_shell_job_passes_through_every_phase_and_leaves_its_artefacts():
    script = """
        echo hello from the program
        mkdir /opt/ml/model/deep && echo weights > /opt/ml/model/w.bin && : > /opt/ml/model/deep/empty
        echo extra > /opt/ml/output/data/extra.txt
    """
    name = yard.run_shell("Life", script)
    job = yard.describe(name)
    assert statuses(job) == NAMES + ["Completed"]
    check_transitions(job)
    messages = [entry["StatusMessage"] for entry in job["SecondaryStatusTransitions"]]
    assert messages[0] in ("Starting the training job", "Preparing the instances for training")
    assert messages[2] == "Training image download completed. Training in progress."
    assert messages[3].startswith("Uploading generated training model")
    assert messages[4] == "Training job completed"
    assert job["TrainingJobArn"] == f"arn:aws:sagemaker:us-east-1:{yard.ACCOUNT}:training-job/{name.lower()}"
    assert job["TrainingJobName"] == name
    assert job["TrainingStartTime"] == job["SecondaryStatusTransitions"][1]["StartTime"]
    assert job["TrainingEndTime"] == job["SecondaryStatusTransitions"][3]["EndTime"]
    assert job["TrainingTimeInSeconds"] >= 1
    assert job["BillableTimeInSeconds"] == job["TrainingTimeInSeconds"]
    assert job["ModelArtifacts"] == {"S3ModelArtifacts": f"s3://{yard.BUCKET}/out/{name}/output/model.tar.gz"}
    assert "FailureReason" not in job
    assert "hello from the program" in yard.log_lines(name)

    model = yard.archive(name)
    assert model["w.bin"][1] == b"weights\n"
    assert model["deep/empty"][1] == b""
    assert model["deep"][0].isdir()
    assert yard.archive(name, "output")["extra.txt"][1] == b"extra\n"
    assert yard.keys(f"out/{name}/") == [f"out/{name}/output/model.tar.gz", f"out/{name}/output/output.tar.gz"]


def test_everything_on_disk_belongs_to_the_caller_and_runs_leave_nothing(daemon):
    yard.run_shell("owner", "echo x > /opt/ml/model/x; umask 0; mkdir -m 000 /opt/ml/input/locked")
    for folder, names, files in os.walk(daemon):
        for entry in names + files:
            status = os.lstat(os.path.join(folder, entry))
            assert status.st_uid == os.getuid(), os.path.join(folder, entry)
    assert stat.S_IMODE(os.stat(daemon / "keys.json").st_mode) == 0o600
    yard.wait_until(lambda: not [f for _, _, files in os.walk(daemon / "runs") for f in files], 5, "empty runs/")


def test_a_description_has_the_defaults_that_aws_adds():
    uri = yard.put("defaults/a.txt")
    name = yard.start("defaults", "true", InputDataConfig=[yard.channel("train", uri)],
                      HyperParameters={"b": "1", "a": "x y"}, Environment={"WHO": "me"},
                      Tags=[{"Key": "k", "Value": "v"}])
    job = yard.describe(name)
    assert job["OutputDataConfig"] == {"S3OutputPath": yard.OUTPUT, "KmsKeyId": "", "CompressionType": "GZIP"}
    channel, = job["InputDataConfig"]
    assert (channel["CompressionType"], channel["RecordWrapperType"]) == ("None", "None")
    assert job["HyperParameters"] == {"b": "1", "a": "x y"}
    assert job["Environment"] == {"WHO": "me"}
    for flag in ("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption", "EnableManagedSpotTraining"):
        assert job[flag] is False
    assert job["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] is False
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 120}
    assert job["RoleArn"] == yard.ROLE
    assert "Tags" not in job
    yard.wait(name)


def test_times_and_artefact_are_absent_until_the_end():
    name = yard.start("early", "echo up; sleep 30")
    yard.wait_for_line(name, "up")
    job = yard.describe(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("InProgress", "Training")
    assert "TrainingStartTime" in job
    for absent in ("TrainingEndTime", "TrainingTimeInSeconds", "BillableTimeInSeconds", "FailureReason"):
        assert absent not in job
    assert "EndTime" not in job["SecondaryStatusTransitions"][-1]
    yard.client("sagemaker").stop_training_job(TrainingJobName=name)
    yard.wait(name)


def test_an_empty_model_folder_writes_no_object_but_is_named_all_the_same():
    name = yard.run_shell("empty", "true")
    assert yard.describe(name)["ModelArtifacts"]["S3ModelArtifacts"].endswith(f"{name}/output/model.tar.gz")
    assert yard.keys(f"out/{name}/output/model") == []


def test_results_without_compression_are_single_objects():
    config = {"S3OutputPath": yard.OUTPUT + "/", "CompressionType": "NONE"}
    name = yard.run_shell("loose", "mkdir /opt/ml/model/a; echo 1 > /opt/ml/model/a/b; echo 2 > /opt/ml/model/c",
                          OutputDataConfig=config)
    assert yard.describe(name)["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{yard.BUCKET}/out/{name}/output/model/"
    assert yard.keys(f"out/{name}/") == [f"out/{name}/output/model/a/b", f"out/{name}/output/model/c"]
    assert yard.read(f"out/{name}/output/model/a/b") == b"1\n"


def test_a_stop_is_asynchronous_gives_sigterm_and_keeps_the_artefact():
    script = "trap 'echo bye; echo kept > /opt/ml/model/kept; sleep 0.5; exit 0' TERM; echo up; " \
             "while :; do sleep 0.05; done"
    name = yard.start("stop", script)
    yard.wait_for_line(name, "up")
    sagemaker = yard.client("sagemaker")
    sagemaker.stop_training_job(TrainingJobName=name)
    job = yard.describe(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopping", "Stopping")
    assert job["SecondaryStatusTransitions"][-1]["StatusMessage"] == "Stopping the training job"
    sagemaker.stop_training_job(TrainingJobName=name)  # again: nothing new, no error
    job = yard.wait(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert statuses(job) == ["Starting", "Downloading", "Training", "Stopping", "Uploading", "Stopped"]
    assert job["SecondaryStatusTransitions"][-1]["StatusMessage"] == "Training job stopped"
    check_transitions(job)
    assert "bye" in yard.log_lines(name)
    assert yard.archive(name)["kept"][1] == b"kept\n"
    assert "FailureReason" not in job


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace():
    name = yard.start("deaf", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    yard.wait_for_line(name, "up")
    begin = time.monotonic()
    yard.client("sagemaker").stop_training_job(TrainingJobName=name)
    assert yard.wait(name)["TrainingJobStatus"] == "Stopped"
    assert 1.8 < time.monotonic() - begin < 6


def test_max_runtime_stops_the_job_and_keeps_what_was_written():
    name = yard.start("long", "echo so far > /opt/ml/model/part; exec sleep 60",
                      StoppingCondition={"MaxRuntimeInSeconds": 1})
    job = yard.wait(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    assert "FailureReason" not in job
    assert yard.archive(name)["part"][1] == b"so far\n"
    check_transitions(job)


def failure_of(script, **overrides):
    """FailureReason of a job that must fail."""
    return yard.describe(yard.run_shell("fail", script, expect="Failed", **overrides))["FailureReason"]


def test_a_failing_program_fails_the_job_and_its_artefacts_are_kept():
    name = yard.run_shell("fails", "echo half > /opt/ml/model/half; echo the disk is blue >&2; exit 7", expect="Failed")
    job = yard.describe(name)
    assert job["FailureReason"] == "AlgorithmError: the disk is blue, exit code: 7"
    assert statuses(job) == NAMES + ["Failed"]
    assert job["SecondaryStatusTransitions"][-1]["StatusMessage"] == "Training job failed"
    check_transitions(job)
    assert yard.archive(name)["half"][1] == b"half\n"


def test_a_silent_failure_has_the_bare_text_of_aws():
    assert failure_of("exit 3") == "AlgorithmError: , exit code: 3"


def test_the_failure_file_is_the_reason():
    assert failure_of("echo noise >&2; printf 'no such flower: Löwenzahn' > /opt/ml/output/failure; exit 1") == \
        "AlgorithmError: no such flower: Löwenzahn, exit code: 1"


def test_a_long_failure_file_is_cut_at_a_whole_character_and_keeps_the_exit_code():
    reason = failure_of("for i in $(seq 700); do printf '語x'; done > /opt/ml/output/failure; exit 9")
    assert len(reason) <= 1024
    assert reason.startswith("AlgorithmError: 語x語x") and reason.endswith(", exit code: 9")
    assert "\ufffd" not in reason


def test_the_failure_file_of_a_successful_program_changes_nothing():
    yard.run_shell("fine", "echo not really > /opt/ml/output/failure")


def test_death_by_a_signal_names_it():
    assert re.match(r"AlgorithmError: .*SIGKILL.*, exit code: 137$", failure_of("sh -c 'kill -9 $PPID'; sleep 5"))
    assert re.match(r"AlgorithmError: .*SIGSEGV.*, exit code: 139$", failure_of("sh -c 'kill -SEGV $PPID'; sleep 5"))


@pytest.mark.parametrize("entrypoint, code", [(["/no/such/program"], 127), (["/etc/hostname"], 126)])
def test_a_program_that_cannot_be_started_is_named(entrypoint, code):
    reason = failure_of("", AlgorithmSpecification={**yard.algorithm(""), "ContainerEntrypoint": entrypoint})
    assert entrypoint[0] in reason
    assert reason.endswith(f", exit code: {code}")


def test_container_arguments_replace_the_word_train_and_follow_an_entry_point():
    specification = {**yard.algorithm(""), "ContainerEntrypoint": ["/bin/echo", "a b"], "ContainerArguments": ["c  d"]}
    assert "a b c  d" in yard.log_lines(yard.run_shell("args", "", AlgorithmSpecification=specification))
    del specification["ContainerEntrypoint"]
    specification["ContainerArguments"] = ["/bin/echo", "alone"]
    assert "alone" in yard.log_lines(yard.run_shell("args", "", AlgorithmSpecification=specification))
    del specification["ContainerArguments"]
    assert "train" in failure_of("", AlgorithmSpecification=specification)


def test_waiters():
    waiter = yard.client("sagemaker").get_waiter("training_job_completed_or_stopped")
    pace = {"Delay": 1, "MaxAttempts": 20}
    waiter.wait(TrainingJobName=yard.start("wait", "true"), WaiterConfig=pace)
    with pytest.raises(WaiterError, match="Failed"):
        waiter.wait(TrainingJobName=yard.start("wait", "exit 1"), WaiterConfig=pace)
    with pytest.raises(WaiterError, match="ValidationException"):
        waiter.wait(TrainingJobName="nobody", WaiterConfig=pace)


def test_final_metrics_are_float32_of_the_last_match():
    definitions = [{"Name": "acc", "Regex": r"acc=([0-9.]+)"}, {"Name": "test:loss", "Regex": r"loss: (\S+)"},
                   {"Name": "never", "Regex": r"never (\d+)"}]
    script = "echo 'acc=0.5 loss: 3e-1'; echo acc=0.9123 >&2; echo 'loss: nonsense'"
    name = yard.run_shell("metrics", script, AlgorithmSpecification=yard.algorithm(
        script, MetricDefinitions=definitions))
    job = yard.describe(name)
    found = {metric["MetricName"]: metric for metric in job["FinalMetricDataList"]}
    assert set(found) == {"acc", "test:loss"}
    assert found["acc"]["Value"] == struct.unpack("f", struct.pack("f", 0.9123))[0] == 0.9122999906539917
    assert found["test:loss"]["Value"] == struct.unpack("f", struct.pack("f", 0.3))[0]
    assert job["CreationTime"] <= found["acc"]["Timestamp"] <= job["TrainingEndTime"]


def test_a_gpu_type_mapped_to_the_cpu_runs_and_says_so():
    resources = {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    name = yard.run_shell("mapped", 'grep -o "ml.p3.2xlarge" /opt/ml/input/config/resourceconfig.json',
                          ResourceConfig=resources)
    for said in (yard.log_lines(name), [yard.describe(name)["SecondaryStatusTransitions"][0]["StatusMessage"]]):
        assert any("ml.p3.2xlarge is mapped to the CPU" in text for text in said), said


def test_spot_and_unused_fields_are_accepted():
    name = yard.run_shell("spot", "true", EnableManagedSpotTraining=True,
                          StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60},
                          DebugHookConfig={"S3OutputPath": yard.OUTPUT, "CollectionConfigurations": []},
                          ProfilerConfig={"S3OutputPath": yard.OUTPUT, "DisableProfiler": False})
    job = yard.describe(name)
    assert job["EnableManagedSpotTraining"] is True and job["TrainingTimeInSeconds"] >= 1
    assert job["ProfilerConfig"]["ProfilingIntervalInMilliseconds"] == 500
    assert job["ProfilingStatus"] == "Enabled"
    yard.run_shell("wait", "true", StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90})


def test_more_jobs_than_slots_wait_their_turn_and_all_complete():
    names = [yard.start("turn", "sleep 0.3") for _ in range(5)]
    jobs = [yard.wait(name) for name in names]
    assert [job["TrainingJobStatus"] for job in jobs] == ["Completed"] * 5


def test_forked_daemons_are_gone_after_the_end():
    name = yard.run_shell("forks", "setsid sleep 98761 & (setsid sh -c 'sleep 98762 & sleep 98763' &) ; "
                                   "trap '' HUP; nohup sleep 98764 > /dev/null 2>&1 & sleep 0.2; echo parent ends")
    assert "parent ends" in yard.log_lines(name)

    def left():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"sleep") and any(w.startswith(b"9876") for w in words[1:]):
                found.append(pid)
        return found

    yard.wait_until(lambda: not left(), 3, "the end of every forked process")
