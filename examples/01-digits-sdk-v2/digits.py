"""Handwritten digits with the SageMaker Python SDK v2. Runs unchanged on AWS: nothing here knows Trainyard."""

import pathlib
import tarfile
import tempfile

import numpy
import torch
from sagemaker import Session, get_execution_role
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.pytorch import PyTorch
from sagemaker.s3 import S3Downloader
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
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
    session = Session()
    bucket = session.default_bucket()
    role = get_execution_role()
    print(f"bucket {bucket}, role {role}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test = write_data(folder)
        inputs = {
            channel: session.upload_data(str(folder / channel), bucket=bucket, key_prefix=f"digits/{channel}")
            for channel in ("train", "test")
        }

        estimator = PyTorch(
            entry_point="train.py",
            source_dir=str(HERE / "source"),
            role=role,
            framework_version="2.8",
            py_version="py312",
            instance_type="ml.m5.large",
            instance_count=1,
            hyperparameters={"epochs": 12, "batch-size": 64, "learning-rate": 3e-3},
            metric_definitions=[
                {"Name": "train:loss", "Regex": r"loss=([0-9\.]+)"},
                {"Name": "test:accuracy", "Regex": r"accuracy=([0-9\.]+)"},
            ],
            base_job_name="digits",
            sagemaker_session=session,
        )
        estimator.fit(inputs)

        metrics = TrainingJobAnalytics(estimator.latest_training_job.name, sagemaker_session=session).dataframe()
        print(metrics.to_string(index=False))
        assert set(metrics["metric_name"]) == {"train:loss", "test:accuracy"}, "both metrics are recorded"

        print(f"artefact {estimator.model_data}")
        S3Downloader.download(estimator.model_data, str(folder / "artefact"), sagemaker_session=session)
        with tarfile.open(folder / "artefact" / "model.tar.gz") as archive:
            archive.extract("model.pt", folder)
        accuracy = test_accuracy(folder / "model.pt", test)
    print(f"test accuracy {accuracy:.4f}")
    assert accuracy >= LEAST_ACCURACY, f"expected at least {LEAST_ACCURACY}"


if __name__ == "__main__":
    main()
