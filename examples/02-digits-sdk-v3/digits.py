"""Handwritten digits with the SageMaker Python SDK v3. Runs unchanged on AWS: nothing here knows Trainyard."""

import logging
import pathlib
import tarfile
import tempfile

import numpy
import torch
from sagemaker.core import image_uris
from sagemaker.core.analytics import TrainingJobAnalytics
from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.core.s3 import S3Downloader
from sagemaker.core.shapes import MetricDefinition
from sagemaker.core.training.configs import Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition
from sagemaker.train.model_trainer import ModelTrainer
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "01-digits-sdk-v2" / "source"
LEAST_ACCURACY = 0.95


def write_data(folder):
    """scikit-learn's 1,797 digits as train/digits.csv and test/digits.csv; returns the test rows."""
    data = load_digits()
    rows = numpy.column_stack([data.target, data.data])
    train, test = train_test_split(rows, test_size=0.2, random_state=1, stratify=data.target)
    for name, part in (("train", train), ("test", test)):
        (folder / name).mkdir()
        numpy.savetxt(folder / name / "digits.csv", part, fmt="%d", delimiter=",")
    return test


def test_accuracy(model_file, test):
    """Loads the TorchScript model, which needs none of the training source, and asks it for every test digit."""
    model = torch.jit.load(str(model_file)).eval()
    with torch.no_grad():
        answers = model(torch.tensor(test[:, 1:], dtype=torch.float32)).argmax(1).numpy()
    return float((answers == test[:, 0]).mean())


def main():
    # This SDK hands the job's log to Python's logging, which shows it only when asked to.
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sagemaker").setLevel(logging.INFO)
    session = Session()
    bucket = session.default_bucket()
    role = get_execution_role(session)
    print(f"bucket {bucket}, role {role}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test = write_data(folder)
        trainer = ModelTrainer(
            training_image=image_uris.retrieve(
                "pytorch", session.boto_region_name, version="2.8", py_version="py312",
                instance_type="ml.m5.large", image_scope="training",
            ),
            source_code=SourceCode(source_dir=str(SOURCE), entry_script="train.py"),
            compute=Compute(instance_type="ml.m5.large", instance_count=1, volume_size_in_gb=30),
            hyperparameters={"epochs": 12, "batch-size": 64, "learning-rate": 3e-3},
            output_data_config=OutputDataConfig(s3_output_path=f"s3://{bucket}/digits-v3/output"),
            stopping_condition=StoppingCondition(max_runtime_in_seconds=600),
            base_job_name="digits-v3",
            role=role,
            sagemaker_session=session,
        ).with_metric_definitions([
            MetricDefinition(name="train:loss", regex=r"loss=([0-9\.]+)"),
            MetricDefinition(name="test:accuracy", regex=r"accuracy=([0-9\.]+)"),
        ])
        # Local folders are uploaded by the trainer itself.
        trainer.train(input_data_config=[
            InputData(channel_name="train", data_source=str(folder / "train")),
            InputData(channel_name="test", data_source=str(folder / "test")),
        ])

        job = trainer._latest_training_job.refresh()
        metrics = TrainingJobAnalytics(job.training_job_name, sagemaker_session=session).dataframe()
        print(metrics.to_string(index=False))
        assert set(metrics["metric_name"]) == {"train:loss", "test:accuracy"}, "both metrics are recorded"

        artefact = job.model_artifacts.s3_model_artifacts
        print(f"artefact {artefact}")
        S3Downloader.download(artefact, str(folder / "artefact"), sagemaker_session=session)
        with tarfile.open(folder / "artefact" / "model.tar.gz") as archive:
            archive.extract("model.pt", folder)
        accuracy = test_accuracy(folder / "model.pt", test)
    print(f"test accuracy {accuracy:.4f}")
    assert accuracy >= LEAST_ACCURACY, f"expected at least {LEAST_ACCURACY}"


if __name__ == "__main__":
    main()
