# SPDX-License-Identifier: Apache-2.0
"""SDK v3's ModelTrainer, unmodified: its channels, its entry script, its questions to STS and IAM."""
import io
import json
import logging
import tarfile
import time

import pytest

import yard

SCRIPT = """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--name")
arguments = parser.parse_args()
print("epochs", arguments.epochs, "name", arguments.name)
data = open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "numbers.txt")).read()
print("sum=%d;" % sum(map(int, data.split())))
with open(os.path.join(os.environ["SM_MODEL_DIR"], "model.json"), "w") as file:
    json.dump({"host": os.environ["SM_CURRENT_HOST"], "hps": json.loads(os.environ["SM_HPS"])}, file)
"""


@pytest.fixture(scope="module")
def session(daemon):
    from sagemaker.core.helper.session_helper import Session
    return Session()


def test_sts_questions_are_answered_here(session):
    from sagemaker.core.helper.session_helper import get_execution_role
    assert session.default_bucket() == f"sagemaker-us-east-1-{yard.ACCOUNT}"
    assert session.account_id() == yard.ACCOUNT
    assert get_execution_role(session) == yard.ROLE


def trainer(session, tmp_path, script, **options):
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    source = tmp_path / "src"
    source.mkdir()
    (source / "train.py").write_text(script)
    return ModelTrainer(training_image=yard.PYTORCH,
                        source_code=SourceCode(source_dir=str(source), entry_script="train.py"),
                        compute=Compute(instance_type="ml.m5.large", instance_count=1), sagemaker_session=session,
                        role=yard.ROLE, base_job_name="v3tests", **options)


def test_a_model_trainer_trains(session, tmp_path, caplog):
    caplog.set_level(logging.INFO)  # the SDK logs the job's lines
    from sagemaker.train.configs import InputData
    data = tmp_path / "data"
    data.mkdir()
    (data / "numbers.txt").write_text("1 2 3 36")
    begin = time.monotonic()
    model = trainer(session, tmp_path, SCRIPT, hyperparameters={"epochs": 3, "name": "abc"})
    model.train(input_data_config=[InputData(channel_name="train", data_source=str(data))], wait=True, logs=True)
    job = model._latest_training_job
    job.refresh()
    assert job.training_job_status == "Completed", job.failure_reason
    assert time.monotonic() - begin < 60
    name = job.training_job_name
    lines = yard.log_lines(name)
    assert any(line.endswith("epochs 3 name abc") for line in lines)
    assert any("sum=42;" in line for line in lines)
    uri = job.model_artifacts.s3_model_artifacts
    bucket, key = uri.removeprefix("s3://").split("/", 1)
    with tarfile.open(fileobj=io.BytesIO(yard.read(key, bucket))) as tar:
        assert json.load(tar.extractfile("model.json")) == {"host": "algo-1", "hps": {"epochs": 3, "name": "abc"}}
    shown = [record.getMessage() for record in caplog.records]
    assert any(name in text and "sum=42;" in text for text in shown), "the SDK shows the log of the job"


def test_a_failing_script_raises_with_the_reason(session, tmp_path):
    model = trainer(session, tmp_path, "raise RuntimeError('the third way')")
    with pytest.raises(Exception) as caught:
        model.train(wait=True, logs=False)
    assert "Failed" in type(caught.value).__name__ or "Failed" in str(caught.value)
    job = model._latest_training_job
    job.refresh()
    assert job.training_job_status == "Failed" and job.failure_reason.startswith("AlgorithmError: ")
