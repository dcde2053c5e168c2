# SPDX-License-Identifier: Apache-2.0
"""What the suites about many nodes, spot and elastic jobs share: Trainyard's own calls, cluster requests, words of a
transition list."""
import json

import wire
import yard


def ask(method, path, body=None, expect=200):
    """The answer of one of Trainyard's own calls, as a document."""
    answer = wire.send(method, "/trainyard/v1/" + path, json.dumps(body).encode() if body is not None else b"",
                       "sagemaker", {"Content-Type": "application/json"})
    assert answer.status_code == expect, (answer.status_code, answer.content[:500])
    return json.loads(answer.content)


def cluster(count, **more):
    """ResourceConfig of `count` equal CPU instances."""
    return {"InstanceType": "ml.m5.xlarge", "InstanceCount": count, "VolumeSizeInGB": 10, **more}


def spot(max_wait=300, max_run=120):
    """Members that make a job a spot job."""
    return {"EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": max_run, "MaxWaitTimeInSeconds": max_wait}}


def checkpoints(prefix, path=None):
    """CheckpointConfig under the suite's bucket."""
    config = {"S3Uri": f"s3://{yard.BUCKET}/{prefix}"}
    if path:
        config["LocalPath"] = path
    return {"CheckpointConfig": config}


def elastic(text):
    """The tag that makes a job elastic."""
    return {"Tags": [{"Key": "trainyard:elastic", "Value": text}]}


def statuses(job):
    """Names of the job's transitions, in order."""
    return [entry["Status"] for entry in job["SecondaryStatusTransitions"]]


def messages(job, status):
    """Messages of all transitions of that name."""
    return [entry["StatusMessage"] for entry in job["SecondaryStatusTransitions"] if entry["Status"] == status]


def check_times(job):
    """Transitions are contiguous, all with a message, and the seconds are what they say."""
    entries = job["SecondaryStatusTransitions"]
    for entry, following in zip(entries, entries[1:]):
        assert entry["EndTime"] == following["StartTime"], entries
    assert all(entry["StatusMessage"] for entry in entries), entries
    assert entries[-1]["EndTime"] == entries[-1]["StartTime"]
    spent, leaving, begin = 0.0, 0.0, None
    ends = ("Interrupted", "Restarting", *yard.TERMINAL, "MaxRuntimeExceeded", "MaxWaitTimeExceeded")
    for entry in entries:
        if entry["Status"] == "Downloading" and begin is None:
            begin = entry["StartTime"]
        if begin and entry["Status"] in ends:
            spent += (entry["StartTime"] - begin).total_seconds()
            begin = None
        if entry["Status"] in ("Interrupted", "Restarting", "Stopping") and begin is None:  # the notice is training
            leaving += (entry["EndTime"] - entry["StartTime"]).total_seconds()
    if "TrainingTimeInSeconds" in job:
        assert 1 <= job["BillableTimeInSeconds"] <= job["TrainingTimeInSeconds"]
        assert spent - 1.5 <= job["TrainingTimeInSeconds"] <= max(1, spent + leaving) + 1.5, (spent, leaving, job)


def wait_for_text(name, text, count=1, seconds=40):
    """Wait until `count` lines over all streams of the job hold the text; those lines."""

    def there():
        try:
            found = [line for line in yard.all_lines(name) if text in line]
        except yard.client("logs").exceptions.ResourceNotFoundException:
            return None
        return found if len(found) >= count else None

    return yard.wait_until(there, seconds, f"{count} x {text!r} in the logs of {name}")


def wait_for_status(name, *wanted, seconds=40):
    """Wait until the job's secondary status is one of these; the description."""

    def there():
        job = yard.describe(name)
        return job if job["SecondaryStatus"] in wanted else None

    return yard.wait_until(there, seconds, f"{wanted} of {name}")


def stop(name):
    """Stop the job and wait for its end."""
    yard.client("sagemaker").stop_training_job(TrainingJobName=name)
    return yard.wait(name)
