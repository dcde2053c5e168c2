# SPDX-License-Identifier: Apache-2.0
"""Film reviews classified by a small BERT on two instances with two workers each, with the SageMaker Python SDK v2."""

import os
import pathlib
import re
import sys
import tarfile
import tempfile

import torch
from sagemaker import Session, get_execution_role, image_uris
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.pytorch import PyTorch
from sagemaker.s3 import S3Downloader

HERE = pathlib.Path(__file__).resolve().parent
SHORT = os.environ.get("EXAMPLE_SHORT") == "1"
LEAST_ACCURACY = 0.6 if SHORT else 0.7
INSTANCES, WORKERS = 2, 2


def log_lines(session, job):
    """(stream, line) of every host."""
    pages = session.boto_session.client("logs").get_paginator("filter_log_events").paginate(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{job}/")
    return [(event["logStreamName"], event["message"]) for page in pages for event in page["events"]]


def main():
    session = Session()
    data = session.upload_data(str(pathlib.Path(sys.argv[1]) / "sentence_polarity.zip"), key_prefix="bert/reviews")
    hyperparameters = {
        "epochs": 2 if SHORT else 3,
        "per_device_train_batch_size": 16,
        "sagemaker_mpi_num_of_processes_per_host": WORKERS,  # by default one for each GPU, here there is none
    }
    if SHORT:
        hyperparameters["limit"] = 3000
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=str(HERE / "source"),
        role=get_execution_role(),
        # Named, because the SDK itself refuses torch_distributed on CPU instances otherwise.
        image_uri=image_uris.retrieve("pytorch", session.boto_region_name, version="2.8", py_version="py312",
                                      instance_type="ml.m5.large", image_scope="training"),
        instance_type="ml.m5.large",
        instance_count=INSTANCES,
        distribution={"torch_distributed": {"enabled": True}},
        hyperparameters=hyperparameters,
        metric_definitions=[{"Name": "validation:accuracy", "Regex": r"'accuracy': ([0-9\.]+)"}],
        base_job_name="bert-reviews",
        sagemaker_session=session,
    )
    estimator.fit({"train": data.rsplit("/", 1)[0]})
    job = estimator.latest_training_job.name

    lines = log_lines(session, job)
    streams = {stream for stream, _ in lines}
    ranks = {int(found[1]) for _, line in lines if (found := re.search(r"Epoch 0, rank (\d+), Loss", line))}
    accuracies = [float(found[1]) for _, line in lines if (found := re.search(r"'accuracy': ([0-9.]+)", line))]
    print(f"{len(streams)} log streams, ranks {sorted(ranks)}, accuracies {accuracies}")
    assert len(streams) == INSTANCES, "every host has a stream of its own"
    assert ranks == set(range(INSTANCES * WORKERS)), "every worker has trained"
    assert len(accuracies) == hyperparameters["epochs"], "rank 0 alone prints the accuracy"

    metrics = TrainingJobAnalytics(job, sagemaker_session=session).dataframe()
    print(metrics.to_string(index=False))
    with tempfile.TemporaryDirectory() as folder:
        S3Downloader.download(estimator.model_data, folder, sagemaker_session=session)
        with tarfile.open(pathlib.Path(folder) / "model.tar.gz") as archive:
            archive.extractall(folder)
        weights = torch.load(pathlib.Path(folder) / "checkpoint.pt", weights_only=True)
        pieces = (pathlib.Path(folder) / "vocab.txt").read_text().splitlines()
    assert weights["words.weight"].shape[0] == len(pieces), "model and vocabulary belong together"
    print(f"artefact {estimator.model_data}: {sum(each.numel() for each in weights.values()):,} parameters")
    assert accuracies[-1] >= LEAST_ACCURACY, f"expected at least {LEAST_ACCURACY}"


if __name__ == "__main__":
    main()
