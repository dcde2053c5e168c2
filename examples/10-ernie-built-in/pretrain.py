# SPDX-License-Identifier: Apache-2.0
"""ERNIE pre-training with the built-in algorithm trainyard/masked-lm: the call of 03-ernie-pretraining, another image."""

import json
import os
import pathlib
import re
import subprocess
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
HERE = pathlib.Path(__file__).resolve().parent
HF = HERE.parents[1] / ".venv/hf/bin/python"

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

# ERNIE in small. The program looks for ernie_config_path in the train channel; without it, it trains all 12 layers of 768.
SHAPE = {"hidden_size": 128 if SHORT else 256, "num_hidden_layers": 2 if SHORT else 4,
         "num_attention_heads": 2 if SHORT else 4, "hidden_act": "relu", "max_position_embeddings": 513,
         "type_vocab_size": 2, "vocab_size": 18000, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
         "initializer_range": 0.02}


def upload(session, bucket):
    """Both channels: the file list, what it lists, and for training vocabulary and shape."""
    for channel, names in (("train", ["train_filelist", "demo_train_set.gz", "vocab.txt"]),
                           ("valid", ["valid_filelist", "demo_valid_set.gz"])):
        for name in names:
            session.upload_data(str(DATA / name), bucket=bucket, key_prefix=f"ernie-built-in/{channel}")
    session.upload_string_as_file_body(json.dumps(SHAPE), bucket, "ernie-built-in/train/ernie_config.json")
    return {
        "train": TrainingInput(f"S3://{bucket}/ernie-built-in/train/"),  # the article's spelling
        "valid": TrainingInput(f"s3://{bucket}/ernie-built-in/valid/"),
    }


def training_losses(session, job):
    """The losses the job printed, in order. A minute's mean, which the metrics give, would hide the slope."""
    logs = session.boto_session.client("logs")
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{job}/")
    lines = [event["message"] for page in pages for event in page["events"]]
    return [float(found[1]) for found in (re.match(r"epoch: .*, loss: ([0-9.]+)", line) for line in lines) if found]


def check_model(folder):
    """What training left loads in Python: plain tensors, TorchScript, and Hugging Face where that is installed."""
    weights = torch.load(folder / "ernie.pt", weights_only=True)["model"]
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())
    words = weights["bert.embeddings.word_embeddings.weight"]
    assert tuple(words.shape) == (SHAPE["vocab_size"], SHAPE["hidden_size"])
    print(f"ernie.pt: {sum(tensor.numel() for tensor in weights.values()):,} parameters, all finite")
    for name in ("model.ts", "model_int8.ts"):
        module = torch.jit.load(folder / name)
        print(f"{name}: {(folder / name).stat().st_size / 1e6:.1f} MB, forward{module.forward.schema}")
    if HF.exists():
        subprocess.run([HF, HERE / "check_hf.py", folder], check=True)
    else:
        print("Hugging Face is not in .venv/hf; make it with: tools/python_env.sh hf")


def main():
    session = Session()
    bucket = session.default_bucket()
    assert len(HYPERPARAMETERS) == 17
    estimator = Estimator(
        image_uri="trainyard/masked-lm",
        role=get_execution_role(),
        instance_count=1,
        instance_type="ml.p3.2xlarge",
        output_path=f"s3://{bucket}/ernie-built-in/output",
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

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        S3Downloader.download(estimator.model_data, name, sagemaker_session=session)
        with tarfile.open(folder / "model.tar.gz") as archive:
            names = sorted(member.removeprefix("./") for member in archive.getnames())
            archive.extractall(folder)
        print(f"artefact {estimator.model_data} holds {', '.join(names)}")
        assert "step_20/ernie.pt" in names, "weights of every save_steps"
        check_model(folder)


if __name__ == "__main__":
    main()
