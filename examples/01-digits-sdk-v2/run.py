# SPDX-License-Identifier: Apache-2.0
"""Train handwritten digits with the SageMaker Python SDK v2. Nothing here is specific to Trainyard."""
import pathlib
import sys
import tarfile
import tempfile

import numpy as np
import sagemaker
import torch
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.pytorch import PyTorch
from sagemaker.s3 import S3Downloader
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SOURCE = pathlib.Path(__file__).resolve().parent / "src"
PROMISED_ACCURACY = 0.95


def save_split(folder):
    """scikit-learn's 1,797 real handwritten digits, a fifth of them kept for the test."""
    digits = load_digits()
    split = train_test_split(
        digits.images, digits.target, test_size=0.2, stratify=digits.target, random_state=1
    )
    train_images, test_images, train_labels, test_labels = split
    for name, images, labels in (
        ("train", train_images, train_labels),
        ("test", test_images, test_labels),
    ):
        (folder / name).mkdir()
        np.savez_compressed(folder / name / "digits.npz", images=images, labels=labels)
    return test_images, test_labels


def load_model(archive, folder):
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    sys.path.insert(0, str(SOURCE))
    from model import DigitNet

    model = DigitNet()
    model.load_state_dict(torch.load(folder / "digits.pt", weights_only=True))
    return model.eval()


def main():
    session = sagemaker.Session()
    role = sagemaker.get_execution_role()
    print(f"bucket {session.default_bucket()}, role {role}")

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        test_images, test_labels = save_split(scratch)
        channels = {
            name: session.upload_data(str(scratch / name), key_prefix=f"digits/{name}")
            for name in ("train", "test")
        }

        estimator = PyTorch(
            entry_point="train.py",
            source_dir=str(SOURCE),
            role=role,
            framework_version="2.8.0",
            py_version="py312",
            instance_count=1,
            instance_type="ml.m5.large",
            base_job_name="digits",
            hyperparameters={"epochs": 8, "batch-size": 32, "learning-rate": 0.002},
            metric_definitions=[
                {"Name": "train:loss", "Regex": r"train_loss=([0-9.]+)"},
                {"Name": "test:accuracy", "Regex": r"test_accuracy=([0-9.]+)"},
            ],
        )
        estimator.fit(channels)

        job = estimator.latest_training_job.name
        print(TrainingJobAnalytics(job).dataframe())

        (archive,) = S3Downloader.download(estimator.model_data, str(scratch / "artefact"))
        model = load_model(archive, scratch / "model")
        images = torch.from_numpy(test_images).float().div(16).unsqueeze(1)
        with torch.no_grad():
            predicted = model(images).argmax(1).numpy()
    accuracy = float((predicted == test_labels).mean())
    print(f"test accuracy {accuracy:.4f} on {len(test_labels)} images (promised: {PROMISED_ACCURACY})")
    return 0 if accuracy >= PROMISED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
