# SPDX-License-Identifier: Apache-2.0
"""The built-in training programs as images, with a stand-in for them: a shell script that says what it was given."""
import json
import re

import pytest

import nodes
import yard

PROGRAM = """\
#!/bin/sh
cd "${SAGEMAKER_BASE_DIR:-/opt/ml}"
printf '%s\\n' "rank ${RANK:-none} of ${WORLD_SIZE:-none} on $(hostname), threads ${OMP_NUM_THREADS:-none}, words $*"
if grep -q learning_rat\\" input/config/hyperparameters.json; then
    echo 'masked-lm: unknown hyperparameter "learning_rat"; did you mean learning_rate?' > output/failure
    exit 1
fi
if [ "${RANK:-0}" = 0 ]; then
    ls input/data/train > model/seen
    echo "step: 1, loss: 10.5, ppl: 1"
fi
"""


@pytest.fixture(scope="module", autouse=True)
def program(daemon):
    """trainyard/stand-in, made after the daemon was started."""
    folder = daemon / "algorithms"
    libraries = daemon / "torch-lib"
    folder.mkdir()
    libraries.mkdir()
    (folder / "stand-in").write_text(PROGRAM)
    (folder / "stand-in").chmod(0o755)
    (folder / "stand-in.json").write_text(json.dumps({
        "image": "trainyard/stand-in", "program": "stand-in", "libraries": [str(libraries)], "torch": "2.13.0"}))
    return folder / "stand-in"


def built_in(name="built-in", image="trainyard/stand-in", expect="Completed", **overrides):
    """Run the image to its end; the job's name."""
    name = yard.start(name, AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"}, **overrides)
    assert yard.wait(name)["TrainingJobStatus"] == expect, yard.log_lines(name)[-10:]
    return name


def test_the_generic_estimator_trains_with_a_built_in_image():
    from sagemaker import Session
    from sagemaker.estimator import Estimator
    session = Session()
    uri = yard.put("built-in/train/a.txt")
    estimator = Estimator(image_uri="trainyard/stand-in", role=yard.ROLE, instance_count=1, instance_type="ml.m5.xlarge",
                          output_path=yard.OUTPUT, hyperparameters={"epochs": 2}, sagemaker_session=session,
                          metric_definitions=[{"Name": "loss", "Regex": r"loss: ([0-9\.]+)"}])
    estimator.fit({"train": uri.rsplit("/", 1)[0]}, logs=False)
    job = yard.describe(estimator.latest_training_job.name)
    assert job["FinalMetricDataList"][0]["Value"] == 10.5
    assert yard.archive(job["TrainingJobName"])["seen"][1] == b"a.txt\n"
    lines = yard.log_lines(job["TrainingJobName"])
    assert any("built-in program" in line and "LibTorch 2.13.0" in line for line in lines), lines
    assert any(line.startswith("rank none of none") and line.endswith("threads none, words train") for line in lines), lines


def test_any_tag_and_registry():
    built_in(image=f"{yard.ACCOUNT}.dkr.ecr.{yard.REGION}.amazonaws.com/trainyard/stand-in:1.0")


def test_a_failure_says_what_the_program_said():
    name = built_in(expect="Failed", HyperParameters={"learning_rat": "1"})
    assert "did you mean learning_rate?" in yard.describe(name)["FailureReason"]


def test_several_processes_on_one_host():
    name = built_in(HyperParameters={"processes_per_host": "2"})
    found = sorted(re.findall(r"rank (\d) of (\d)", "\n".join(yard.log_lines(name))))
    assert found == [("0", "2"), ("1", "2")], yard.log_lines(name)


def test_several_hosts_train_together(boxed):
    uri = yard.put("built-in/train/a.txt")
    name = built_in(ResourceConfig=nodes.cluster(2), InputDataConfig=[yard.channel("train", uri)],
                    HyperParameters={"sagemaker_torch_distributed_enabled": "true",
                                     "sagemaker_mpi_num_of_processes_per_host": "2"})
    found = sorted(re.findall(r"rank (\d) of 4 on (algo-\d)", "\n".join(yard.all_lines(name))))
    assert found == [("0", "algo-1"), ("1", "algo-1"), ("2", "algo-2"), ("3", "algo-2")], yard.all_lines(name)
    assert yard.archive(name)["seen"][1] == b"a.txt\n"


def test_an_image_that_is_not_built_says_how():
    code, message, status = yard.error_of(
        yard.client("sagemaker").create_training_job, **yard.request_for(yard.fresh(), AlgorithmSpecification={
            "TrainingImage": "trainyard/stand-inn:1", "TrainingInputMode": "File"}))
    assert code == "ValidationException" and status == 400
    assert "make algorithms" in message and "nearest: trainyard/stand-in" in message, message


def test_doctor_lists_the_built_in_programs(program):
    found = {row["subject"]: row for row in json.loads(yard.cli("doctor", "-o", "json").stdout)}
    assert found["environment trainyard/stand-in"]["state"] == "ok"
    program.rename(program.with_suffix(".away"))
    found = {row["subject"]: row for row in json.loads(yard.cli("doctor", "-o", "json").stdout)}
    program.with_suffix(".away").rename(program)
    assert "make algorithms" in found["environment trainyard/stand-in"]["text"]


def test_an_elastic_job_needs_nothing_more(boxed):
    name = built_in(ResourceConfig=nodes.cluster(2), **nodes.elastic("2:2"))
    found = sorted(re.findall(r"rank (\d) of 2 on (algo-\d)", "\n".join(yard.all_lines(name))))
    assert [rank for rank, _ in found] == ["0", "1"], yard.all_lines(name)
