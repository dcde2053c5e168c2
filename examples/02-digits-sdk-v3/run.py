# SPDX-License-Identifier: Apache-2.0
"""Train handwritten digits with the SageMaker Python SDK v3. Nothing here is specific to Trainyard."""
import pathlib
import sys
import tarfile
import tempfile

import numpy as np
import torch
from sagemaker.core import image_uris
from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.core.s3 import S3Downloader
from sagemaker.core.shapes import MetricDefinition
from sagemaker.core.training.configs import Compute, InputData, OutputDataConfig, SourceCode
from sagemaker.train import ModelTrainer
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

# The training program of the first example, unchanged.
SOURCE = pathlib.Path(__file__).resolve().parent.parent / "01-digits-sdk-v2" / "src"
PROMISED_ACCURACY = 0.95


def save_split(folder):
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
        tar.extract("digits.pt", folder)
    sys.path.insert(0, str(SOURCE))
    from model import DigitNet

    model = DigitNet()
    model.load_state_dict(torch.load(folder / "digits.pt", weights_only=True))
    return model.eval()


def main():
    session = Session()
    role = get_execution_role()
    print(f"bucket {session.default_bucket()}, role {role}")

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        test_images, test_labels = save_split(scratch)

        trainer = ModelTrainer(
            training_image=image_uris.retrieve(
                "pytorch",
                session.boto_region_name,
                version="2.8.0",
                py_version="py312",
                instance_type="ml.m5.large",
                image_scope="training",
            ),
            role=role,
            base_job_name="digits-v3",
            source_code=SourceCode(source_dir=str(SOURCE), entry_script="train.py"),
            compute=Compute(instance_type="ml.m5.large", instance_count=1),
            hyperparameters={"epochs": 8, "batch-size": 32, "learning-rate": 0.002},
            output_data_config=OutputDataConfig(
                s3_output_path=f"s3://{session.default_bucket()}/digits-v3/models"
            ),
        ).with_metric_definitions(
            [
                MetricDefinition(name="train:loss", regex=r"train_loss=([0-9.]+)"),
                MetricDefinition(name="test:accuracy", regex=r"test_accuracy=([0-9.]+)"),
            ]
        )
        # Local folders: the SDK uploads them, file by file.
        trainer.train(
            input_data_config=[
                InputData(channel_name=name, data_source=str(scratch / name))
                for name in ("train", "test")
            ]
        )

        job = trainer._latest_training_job
        job.refresh()
        for metric in job.final_metric_data_list:
            print(f"{metric.metric_name} {metric.value:.4f}")

        (archive,) = S3Downloader.download(
            job.model_artifacts.s3_model_artifacts, str(scratch / "artefact")
        )
        model = load_model(archive, scratch / "model")
        images = torch.from_numpy(test_images).float().div(16).unsqueeze(1)
        with torch.no_grad():
            predicted = model(images).argmax(1).numpy()
    accuracy = float((predicted == test_labels).mean())
    print(f"test accuracy {accuracy:.4f} on {len(test_labels)} images (promised: {PROMISED_ACCURACY})")
    return 0 if accuracy >= PROMISED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
