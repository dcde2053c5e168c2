"""ERNIE pre-training in a container image of one's own, with the generic Estimator of the SageMaker Python SDK v2."""

import os
import pathlib
import re
import sys
import tarfile
import tempfile

import torch
from sagemaker import Session, get_execution_role
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.estimator import Estimator
from sagemaker.inputs import TrainingInput
from sagemaker.s3 import S3Downloader

DATA = pathlib.Path(sys.argv[1])
SHORT = os.environ.get("EXAMPLE_SHORT") == "1"

# As in the article: all of them strings, booleans included.
HYPERPARAMETERS = {
    "use_cuda": "true",
    "is_distributed": "false",
    "use_fast_executor": "true",
    "weight_sharing": "true",
    "in_tokens": "true",
    "use_fp16": "false",
    "batch_size": "2048" if SHORT else "4096",
    "max_seq_len": "512",
    "num_train_steps": "30" if SHORT else "60",
    "skip_steps": "5",
    "save_steps": "20",
    "validation_steps": "15",
    "learning_rate": "2e-3",
    "weight_decay": "0.01",
    "vocab_path": "/opt/ml/input/data/train/vocab.txt",
    "ernie_config_path": "./config/ernie_config.json",
    "checkpoints": "/opt/ml/model",
}

METRICS = [
    {"Name": "loss", "Regex": r"loss: ([0-9\.]+)"},
    {"Name": "ppl", "Regex": r"step: .*, ppl: ([0-9\.]+)"},
    {"Name": "next_sent_acc", "Regex": r"next_sent_acc: ([0-9\.]+)"},
]


def upload(session, bucket):
    """Both channels: the file list, what it lists, and for training the vocabulary."""
    for channel, names in (("train", ["train_filelist", "demo_train_set.gz", "vocab.txt"]),
                           ("valid", ["valid_filelist", "demo_valid_set.gz"])):
        for name in names:
            session.upload_data(str(DATA / name), bucket=bucket, key_prefix=f"ernie/{channel}")
    return {
        "train": TrainingInput(f"S3://{bucket}/ernie/train/"),  # the article's spelling
        "valid": TrainingInput(f"s3://{bucket}/ernie/valid/"),
    }


def training_losses(session, job):
    """The losses the job printed, in order. A minute's mean, which the metrics give, would hide the slope."""
    logs = session.boto_session.client("logs")
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{job}/")
    lines = [event["message"] for page in pages for event in page["events"]]
    return [float(found[1]) for found in (re.match(r"epoch: .*, loss: ([0-9.]+)", line) for line in lines) if found]


def main():
    session = Session()
    bucket = session.default_bucket()
    image = f"{session.account_id()}.dkr.ecr.{session.boto_region_name}.amazonaws.com/ernie-pretraining:latest"
    assert len(HYPERPARAMETERS) == 17
    estimator = Estimator(
        image_uri=image,
        role=get_execution_role(),
        instance_count=1,
        instance_type="ml.p3.2xlarge",
        output_path=f"s3://{bucket}/ernie/output",
        hyperparameters=HYPERPARAMETERS,
        metric_definitions=METRICS,
        sagemaker_session=session,
    )
    estimator.fit(upload(session, bucket))
    job = estimator.latest_training_job.name

    metrics = TrainingJobAnalytics(job, sagemaker_session=session).dataframe()
    print(metrics.to_string(index=False))
    assert set(metrics["metric_name"]) == {metric["Name"] for metric in METRICS}, "every metric is recorded"

    losses = training_losses(session, job)
    first, last = losses[0], sum(losses[-3:]) / 3
    print(f"loss {first:.3f} at first, {last:.3f} at last")
    assert last < first - 1.0, "the loss falls"

    with tempfile.TemporaryDirectory() as folder:
        S3Downloader.download(estimator.model_data, folder, sagemaker_session=session)
        with tarfile.open(pathlib.Path(folder) / "model.tar.gz") as archive:
            names = sorted(name.removeprefix("./") for name in archive.getnames() if name.endswith(".pt"))
            archive.extractall(folder)
        model = torch.load(pathlib.Path(folder) / "ernie.pt", weights_only=True)["model"]
    print(f"artefact {estimator.model_data} holds {', '.join(names)}")
    assert names == ["ernie.pt", "step_20/ernie.pt"] if SHORT else len(names) == 4
    size = sum(tensor.numel() for name, tensor in model.items() if name != "decode.weight")
    print(f"{size:,} parameters, all finite")
    assert all(bool(torch.isfinite(tensor).all()) for tensor in model.values())


if __name__ == "__main__":
    main()
