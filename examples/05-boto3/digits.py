"""What the SageMaker SDK does for a training job, by hand with boto3: upload, create, wait, read logs and metrics."""

import datetime
import io
import json
import pathlib
import tarfile
import time
import urllib.request

import boto3
import numpy
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "01-digits-sdk-v2" / "source"
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
LEAST_ACCURACY = 0.95


def upload(s3, bucket):
    """The data of both channels and the training source; returns the test rows."""
    data = load_digits()
    rows = numpy.column_stack([data.target, data.data])
    train, test = train_test_split(rows, test_size=0.2, random_state=1, stratify=data.target)
    for name, part in (("train", train), ("test", test)):
        text = io.StringIO()
        numpy.savetxt(text, part, fmt="%d", delimiter=",")
        s3.put_object(Bucket=bucket, Key=f"digits/{name}/digits.csv", Body=text.getvalue().encode())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(SOURCE / "train.py", "train.py")
    archive.seek(0)
    s3.upload_fileobj(archive, bucket, "digits/sourcedir.tar.gz")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    print("uploaded", *(item["Key"] for page in pages for item in page["Contents"]))
    return test


def request(job, bucket, account, region):
    """A script-mode job: the framework image finds the program through two hyperparameters, in JSON."""
    channels = [
        {"ChannelName": name, "DataSource": {"S3DataSource": {
            "S3DataType": "S3Prefix", "S3Uri": f"s3://{bucket}/digits/{name}/",
            "S3DataDistributionType": "FullyReplicated"}}}
        for name in ("train", "test")
    ]
    return {
        "TrainingJobName": job,
        "AlgorithmSpecification": {
            "TrainingImage": f"763104351884.dkr.ecr.{region}.amazonaws.com/pytorch-training:2.8.0-cpu-py312",
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": "loss", "Regex": r"loss=([0-9\.]+)"},
                                  {"Name": "accuracy", "Regex": r"accuracy=([0-9\.]+)"}],
        },
        "HyperParameters": {
            "sagemaker_program": json.dumps("train.py"),
            "sagemaker_submit_directory": json.dumps(f"s3://{bucket}/digits/sourcedir.tar.gz"),
            "epochs": "12",
        },
        "InputDataConfig": channels,
        "OutputDataConfig": {"S3OutputPath": f"s3://{bucket}/output"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
        "RoleArn": f"arn:aws:iam::{account}:role/TrainyardExecutionRole",
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    }


def read_log(logs, job):
    """Every line of every host's stream, page by page until the token no longer changes."""
    lines = []
    for page in logs.get_paginator("describe_log_streams").paginate(
            logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job}/"):
        for stream in page["logStreams"]:
            token, more = None, {}
            while True:
                events = logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=stream["logStreamName"],
                                             startFromHead=True, **more)
                lines += [event["message"] for event in events["events"]]
                if events["nextForwardToken"] == token:
                    break
                token = events["nextForwardToken"]
                more = {"nextToken": token}
    return lines


def read_metric(cloudwatch, job, name):
    now = datetime.datetime.now(datetime.timezone.utc)
    answer = cloudwatch.get_metric_statistics(
        Namespace=LOG_GROUP, MetricName=name, Dimensions=[{"Name": "TrainingJobName", "Value": job}],
        StartTime=now - datetime.timedelta(hours=1), EndTime=now + datetime.timedelta(minutes=1),
        Period=60, Statistics=["Minimum", "Maximum", "SampleCount"])
    return sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])


def main():
    session = boto3.Session()
    s3, sagemaker = session.client("s3"), session.client("sagemaker")
    account = session.client("sts").get_caller_identity()["Account"]
    stamp = time.strftime("%Y-%m-%d-%H-%M-%S")
    bucket, job = f"example-boto3-{stamp}", f"digits-boto3-{stamp}"

    where = {} if session.region_name == "us-east-1" else {
        "CreateBucketConfiguration": {"LocationConstraint": session.region_name}}
    s3.create_bucket(Bucket=bucket, **where)
    test = upload(s3, bucket)

    arn = sagemaker.create_training_job(**request(job, bucket, account, session.region_name))["TrainingJobArn"]
    print(f"created {arn}")
    sagemaker.get_waiter("training_job_completed_or_stopped").wait(
        TrainingJobName=job, WaiterConfig={"Delay": 1, "MaxAttempts": 300})
    description = sagemaker.describe_training_job(TrainingJobName=job)
    for step in description["SecondaryStatusTransitions"]:
        print(f"{step['StartTime']:%H:%M:%S} {step['Status']}: {step['StatusMessage']}")
    assert description["TrainingJobStatus"] == "Completed"

    lines = read_log(session.client("logs"), job)
    print(*lines, sep="\n")
    assert sum(line.startswith("epoch=") for line in lines) == 12, "every epoch's line, once"

    for name in ("loss", "accuracy"):
        points = read_metric(session.client("cloudwatch"), job, name)
        for point in points:
            print(f"{name} at {point['Timestamp']:%H:%M}: {point['Minimum']:.4f} to {point['Maximum']:.4f}")
        assert sum(point["SampleCount"] for point in points) == 12, "every metric line became a point, once"

    key = description["ModelArtifacts"]["S3ModelArtifacts"].removeprefix(f"s3://{bucket}/")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
    with urllib.request.urlopen(url) as answer, tarfile.open(fileobj=io.BytesIO(answer.read())) as archive:
        model = torch.jit.load(io.BytesIO(archive.extractfile("model.pt").read())).eval()
    with torch.no_grad():
        answers = model(torch.tensor(test[:, 1:], dtype=torch.float32)).argmax(1).numpy()
    accuracy = float((answers == test[:, 0]).mean())
    print(f"test accuracy {accuracy:.4f}")
    assert accuracy >= LEAST_ACCURACY, f"expected at least {LEAST_ACCURACY}"


if __name__ == "__main__":
    main()
