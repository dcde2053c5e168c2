# SPDX-License-Identifier: Apache-2.0
"""A speech model trained on machines that vanish, with the SageMaker Python SDK v2, and the same one undisturbed.

The training jobs know nothing of Trainyard but a tag; the `trainyard` command plays the spot market and prints the bill."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import torch
from sagemaker import Session, get_execution_role
from sagemaker.pytorch import PyTorch
from sagemaker.s3 import S3Downloader

HERE = pathlib.Path(__file__).resolve().parent
HELPER = HERE.parent.parent / "python" / "trainyard"
SHORT = os.environ.get("EXAMPLE_SHORT") == "1"
EVERY, NOTICE, STORM = ("12s", "3s", 15) if SHORT else ("25s", "10s", 600)
LEAST = 0.7 if SHORT else 0.88
# How far the accuracies may be apart: see README.md. In double precision rounding does not grow into anything visible.
TOLERANCE = 0.0 if SHORT else 0.04


def trainyard(*words):
    return subprocess.run(["trainyard", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def estimator(session, name, **options):
    return PyTorch(
        entry_point="train.py",
        source_dir=str(HERE / "source"),
        dependencies=[str(HELPER)],
        role=get_execution_role(),
        framework_version="2.8",
        py_version="py312",
        instance_type="ml.m5.large",
        hyperparameters={"model": "conv", "train": "short"} if SHORT else {"model": "wide", "train": "full"},
        metric_definitions=[{"Name": "test:accuracy", "Regex": r"accuracy=([0-9\.]+)"}],
        base_job_name=name,
        max_run=3600,
        sagemaker_session=session,
        **options,
    )


def newest_step(job):
    checkpoints = json.loads(trainyard("checkpoints", job, "-o", "json"))["checkpoints"]
    return max((each["step"] or 0 for each in checkpoints), default=0)


def disturb(job, steps, over):
    """Notices at random moments, by the service; kills, a growth and more notices after random steps, by us."""
    dice = random.Random(7)
    acts = [("scale", job, "4"), ("interrupt", job, "--kill"), ("interrupt", job, "--notice", NOTICE), ("interrupt", job, "--kill")]
    acts = acts[:3] if SHORT else acts
    acts = list(zip(sorted(dice.sample(range(steps // 20, steps * 3 // 4), len(acts))), acts))
    print(trainyard("interrupt", job, "--every", EVERY, "--notice", NOTICE, "--seed", "7"), end="")
    # On a machine so busy that a start takes longer than two faults are apart, nothing would ever end.
    calm = time.monotonic() + STORM
    while (acts or calm) and not over.wait(0.5):
        try:
            step = newest_step(job)
            if calm and (time.monotonic() > calm or step > steps * 4 // 5):
                calm = None
                print(trainyard("interrupt", job, "--stop"), end="")
            if acts and step >= acts[0][0]:
                print(trainyard(*acts.pop(0)[1]), end="")
        except subprocess.CalledProcessError:
            pass  # it has just ended, or everybody is leaving already


def wait_for_training(session, job):
    while session.describe_training_job(job)["SecondaryStatus"] not in ("Training", "Completed", "Failed", "Stopped"):
        time.sleep(0.5)


def result(trained, session):
    with tempfile.TemporaryDirectory() as folder:
        S3Downloader.download(trained.model_data, folder, sagemaker_session=session)
        with tarfile.open(pathlib.Path(folder) / "model.tar.gz") as archive:
            archive.extractall(folder)
        return (json.loads((pathlib.Path(folder) / "result.json").read_text()),
                torch.load(pathlib.Path(folder) / "model.pt", weights_only=True))


def main():
    session = Session()
    data = session.upload_data(str(pathlib.Path(sys.argv[1]) / "recordings.tar.gz"), key_prefix="speech/recordings")
    data = data.rsplit("/", 1)[0]

    print("== one machine, undisturbed")
    quiet = estimator(session, "speech-quiet", instance_count=1)
    quiet.fit({"training": data})
    expected, its_model = result(quiet, session)

    print("== one to four machines that vanish")
    name = f"speech-spot-{int(time.time() * 1000)}"
    spot = estimator(
        session, "speech-spot",
        instance_count=2,
        tags=[{"Key": "trainyard:elastic", "Value": "1:4"}],
        use_spot_instances=True,
        max_wait=3600,
        checkpoint_s3_uri=f"s3://{session.default_bucket()}/speech/checkpoints/{name}",
    )
    spot.fit({"training": data}, wait=False, job_name=name)
    wait_for_training(session, name)
    over = threading.Event()
    storm = threading.Thread(target=disturb, args=(name, expected["steps"], over))
    storm.start()
    try:
        spot.latest_training_job.wait(logs="All")
    finally:
        over.set()
        storm.join()
    got, model = result(spot, session)

    print(trainyard("ledger", name), end="")
    ledger = json.loads(trainyard("ledger", name, "-o", "json"))
    apart = max(float((model[key] - its_model[key]).abs().max()) for key in model)
    print(f"undisturbed {expected['accuracy']:.4f}, disturbed {got['accuracy']:.4f}, tolerance {TOLERANCE}; "
          f"{got['steps']} steps, {got['samples']} samples; weights at most {apart:.1e} apart")
    assert ledger["interruptions"] >= 1, "the job was disturbed"
    assert (got["steps"], got["samples"]) == (expected["steps"], expected["samples"]), "no step and no sample more or less"
    assert expected["accuracy"] >= LEAST, f"expected at least {LEAST}"
    assert abs(got["accuracy"] - expected["accuracy"]) <= TOLERANCE, "the interruptions changed the outcome"
    assert not SHORT or apart < 1e-6, "the weights are those of the undisturbed run"


if __name__ == "__main__":
    main()
