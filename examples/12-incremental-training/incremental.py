# SPDX-License-Identifier: Apache-2.0
"""Pre-training, then classification that starts from its result: the model.tar.gz of a trainyard/masked-lm job is the channel
`model` of a trainyard/text-classification job, with the SageMaker Python SDK v2."""

import json
import os
import pathlib
import re
import sys
import zipfile

from sagemaker import Session, get_execution_role
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.estimator import Estimator

DATA = pathlib.Path(sys.argv[1])
SHORT = os.environ.get("EXAMPLE_SHORT") == "1"
STEPS = 30 if SHORT else 400
ACCURACY = r"'accuracy': ([0-9\.]+)"
SHAPE = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_act": "relu",
         "max_position_embeddings": 513, "type_vocab_size": 2, "vocab_size": 18000}


def log_lines(session, job):
    """Everything the job said."""
    pages = session.boto_session.client("logs").get_paginator("filter_log_events").paginate(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{job}/")
    return [event["message"] for page in pages for event in page["events"]]


def estimator(session, program, name, hyperparameters, metric, **more):
    """One job of a built-in program."""
    return Estimator(image_uri=f"trainyard/{program}", role=get_execution_role(), instance_count=1,
                     instance_type="ml.m5.large", hyperparameters=hyperparameters, metric_definitions=[metric],
                     base_job_name=name, sagemaker_session=session, **more)


def pretrain(session, bucket):
    """ERNIE in small on the demonstration set; the model's place in S3."""
    for name in ("train_filelist", "demo_train_set.gz", "vocab.txt"):
        session.upload_data(str(DATA / "ernie" / name), bucket=bucket, key_prefix="incremental/ernie")
    session.upload_string_as_file_body(json.dumps(SHAPE), bucket, "incremental/ernie/ernie_config.json")
    job = estimator(session, "masked-lm", "ernie",
                    {"num_train_steps": STEPS, "batch_size": 2048 if SHORT else 4096, "learning_rate": "1e-3",
                     "skip_steps": 10}, {"Name": "loss", "Regex": r"loss: ([0-9\.]+)"})
    job.fit({"train": f"s3://{bucket}/incremental/ernie"})
    return job.model_data


def upload_reviews(session, bucket):
    """ChnSentiCorp as it is: label<TAB>text_a with a header. ERNIE's vocabulary beside it, for the job without its model."""
    with zipfile.ZipFile(DATA / "text/chnsenticorp.zip") as archive:
        for channel, part in (("train", "train"), ("valid", "dev")):
            lines = archive.read(f"{part}.tsv").decode().splitlines(keepends=True)
            lines = lines[:1501 if channel == "train" else 301] if SHORT else lines
            session.upload_string_as_file_body("".join(lines), bucket, f"incremental/reviews/{channel}/{part}.tsv")
    session.upload_data(str(DATA / "ernie/vocab.txt"), bucket=bucket, key_prefix="incremental/reviews/train")
    return {channel: f"s3://{bucket}/incremental/reviews/{channel}" for channel in ("train", "valid")}


def classify(session, channels, name, **more):
    """Accuracy of the last validation, and what the job said."""
    shape = {} if more else {key: SHAPE[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    job = estimator(session, "text-classification", name,
                    {"epochs": 1 if SHORT else 3, "per_device_train_batch_size": 16, "learning_rate": "1e-3",
                     "max_length": 64 if SHORT else 128, **shape},
                    {"Name": "validation:accuracy", "Regex": ACCURACY}, **more)
    job.fit(channels)
    ended = job.latest_training_job.name
    assert not TrainingJobAnalytics(ended, sagemaker_session=session).dataframe().empty
    lines = log_lines(session, ended)
    # The metric is a mean over a minute, which may hold several validations; the last line does not.
    last = [re.search(ACCURACY, line) for line in lines if "Validation Accuracy" in line][-1]
    return float(last[1]), lines


def main():
    session = Session()
    bucket = session.default_bucket()
    model = pretrain(session, bucket)
    print(f"pre-trained model: {model}")
    channels = upload_reviews(session, bucket)
    # The SDK's words for incremental training: the model becomes a channel of that name.
    accuracy, lines = classify(session, channels, "reviews-from-ernie", model_uri=model, model_channel_name="model")
    print(f"accuracy {accuracy:.4f} after {STEPS} updates of pre-training")
    assert any("/opt/ml/input/data/model" in line for line in lines), "the job says what it started from"
    if not SHORT:
        scratch, _ = classify(session, channels, "reviews-from-scratch")
        print(f"accuracy {scratch:.4f} from scratch: pre-training brings {100 * (accuracy - scratch):+.2f} points")
    assert accuracy >= (0.5 if SHORT else 0.75)


if __name__ == "__main__":
    main()
