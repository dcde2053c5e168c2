# SPDX-License-Identifier: Apache-2.0
"""Texts classified with the built-in algorithm trainyard/text-classification: English film reviews by two instances,
Chinese hotel and book reviews by two processes of one, with the SageMaker Python SDK v2."""

import csv
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import torch
from sagemaker import Session, get_execution_role
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.estimator import Estimator
from sagemaker.s3 import S3Downloader

DATA = pathlib.Path(sys.argv[1])
SHORT = os.environ.get("EXAMPLE_SHORT") == "1"
HERE = pathlib.Path(__file__).resolve().parent
HF = HERE.parents[1] / ".venv/hf/bin/python"

# A small BERT from nothing. The article's names where it has them.
HYPERPARAMETERS = {
    "epochs": 2 if SHORT else 3,
    "per_device_train_batch_size": 16,
    "learning_rate": "1e-3",
    "max_length": 64 if SHORT else 128,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    # What distribution={"torch_distributed": {"enabled": True}} of a framework estimator sends.
    "sagemaker_torch_distributed_enabled": "true",
}
METRICS = [{"Name": "validation:accuracy", "Regex": r"'accuracy': ([0-9\.]+)"}]


def english():
    """Rows of text and label, negative 0 and positive 1, an order that is the same everywhere; a tenth to check with."""
    with zipfile.ZipFile(DATA / "sentence_polarity.zip") as archive:
        rows = [(line, name) for name in ("neg", "pos")
                for line in archive.read(f"sentence_polarity/rt-polarity.{name}").decode("latin-1").splitlines()]
    random.Random(1).shuffle(rows)
    rows = rows[:3000] if SHORT else rows
    return rows[len(rows) // 10:], rows[:len(rows) // 10]


def chinese():
    """ChnSentiCorp's own split; its label comes first."""
    parts = []
    with zipfile.ZipFile(DATA / "chnsenticorp.zip") as archive:
        for part in ("train", "dev"):
            lines = archive.read(f"{part}.tsv").decode().splitlines()[1:]
            parts.append([(text, label) for label, text in (line.split("\t", 1) for line in lines)])
    return (parts[0][:2000], parts[1][:300]) if SHORT else tuple(parts)


def as_csv(rows):
    """Text and label, with a header; csv's own quotes."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["text", "label"])
    writer.writerows(rows)
    return out.getvalue()


def upload(session, name, train, valid):
    """Channels of the two parts. The vocabulary is made of the training texts."""
    bucket = session.default_bucket()
    for channel, rows in (("train", train), ("valid", valid)):
        session.upload_string_as_file_body(as_csv(rows), bucket, f"classification/{name}/{channel}/reviews.csv")
    return {channel: f"s3://{bucket}/classification/{name}/{channel}" for channel in ("train", "valid")}


def train(session, name, rows, instances, least, **hyperparameters):
    """Train, then look at what came of it."""
    estimator = Estimator(
        image_uri="trainyard/text-classification",
        role=get_execution_role(),
        instance_count=instances,
        instance_type="ml.m5.large",
        hyperparameters={**HYPERPARAMETERS, **hyperparameters},
        metric_definitions=METRICS,
        base_job_name=f"{name}-reviews",
        sagemaker_session=session,
    )
    estimator.fit(upload(session, name, *rows))
    job = estimator.latest_training_job.name
    print(TrainingJobAnalytics(job, sagemaker_session=session).dataframe().to_string(index=False))
    with tempfile.TemporaryDirectory() as folder:
        for result in ("model.tar.gz", "output.tar.gz"):
            uri = estimator.model_data.replace("model.tar.gz", result)
            S3Downloader.download(uri, folder, sagemaker_session=session)
            with tarfile.open(pathlib.Path(folder) / result) as archive:
                archive.extractall(folder)
        # The metric above is a mean over a minute; the job's own report has the last validation.
        report = next(pathlib.Path(folder).rglob("metrics.json"))
        accuracy = json.loads(report.read_text())["validation"]["accuracy"]
        names = sorted(path.name for path in pathlib.Path(folder).iterdir())
        print(f"{name}: accuracy {accuracy:.4f}; {estimator.model_data} holds {', '.join(names)}")
        torch.jit.load(f"{folder}/model.ts")
        if HF.exists():
            (pathlib.Path(folder) / "check.csv").write_text(as_csv(rows[1]))
            subprocess.run([HF, HERE / "check_hf.py", folder, f"{accuracy}"], check=True)
        else:
            print("Hugging Face is not in .venv/hf; make it with: tools/python_env.sh hf")
    assert accuracy >= least, f"expected an accuracy of at least {least}"


def main():
    session = Session()
    train(session, "english", english(), 2, 0.55 if SHORT else 0.70)
    train(session, "chinese", chinese(), 1, 0.65 if SHORT else 0.78, processes_per_host=2)


if __name__ == "__main__":
    main()
