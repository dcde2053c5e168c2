# SPDX-License-Identifier: Apache-2.0
"""What the suites share: clients of the session's daemon, jobs that end quickly, their logs."""
import base64
import copy
import functools
import io
import os
import subprocess
import tarfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TRAINYARD_BIN", ROOT / "build/release/bin"))
HOME = None  # set by the daemon fixture
LOG_TAIL = ""
ACCOUNT = "000000000000"
REGION = "us-east-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/TrainyardExecutionRole"
BUCKET = "sdk-tests"
OUTPUT = f"s3://{BUCKET}/out"
GROUP = "/aws/sagemaker/TrainingJobs"
PYTORCH = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch-training:2.8.0-cpu-py312"
TERMINAL = ("Completed", "Failed", "Stopped")


def cli(*words, home=None, timeout=60, **options):
    """Run the trainyard command; its result with text output."""
    environment = dict(os.environ, TRAINYARD_HOME=str(home or HOME))
    return subprocess.run([str(BIN / "trainyard"), *map(str, words)], env=environment, text=True, check=False,
                          capture_output=True, timeout=timeout, **options)


def daemon_log_tail(lines=40):
    """The end of daemon.log."""
    path = Path(HOME or "/nonexistent") / "daemon.log"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""


def fresh(prefix="job"):
    """A name nobody used yet."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


@functools.lru_cache(maxsize=None)
def client(service, region=REGION):
    """A client as a user's script makes it: everything comes from the environment."""
    import boto3
    from botocore.config import Config
    return boto3.session.Session(region_name=region).client(service, config=Config(retries={"max_attempts": 0}))


def unchecked(service):
    """A client that sends what botocore itself would refuse."""
    import boto3
    from botocore.config import Config
    return boto3.session.Session().client(
        service, config=Config(parameter_validation=False, retries={"max_attempts": 0}))


def speaking(service, protocol, target=None):
    """A client whose service model knows one protocol only, as older and newer SDKs do."""
    import botocore.session
    session = botocore.session.get_session()
    loader = session.get_component("data_loader")
    original = loader.load_service_model

    def load(name, kind, api_version=None):
        model = original(name, kind, api_version)
        if name == service and kind == "service-2":
            model = copy.deepcopy(model)
            model["metadata"]["protocols"] = [protocol]
            model["metadata"]["protocol"] = protocol
        return model

    loader.load_service_model = load
    return session.create_client(service, region_name=REGION, endpoint_url=target)


def request_for(name, script=None, **overrides):
    """A complete CreateTrainingJob request for a shell program; `overrides` replace whole members."""
    request = {
        "TrainingJobName": name,
        "AlgorithmSpecification": algorithm(script or "true"),
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": OUTPUT},
        "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
        "StoppingCondition": {"MaxRuntimeInSeconds": 120},
    }
    request.update(overrides)
    return {key: value for key, value in request.items() if value is not None}


def algorithm(script, **more):
    """AlgorithmSpecification that runs a shell script on the host's programs."""
    command = {"ContainerEntrypoint": ["/bin/sh", "-c", script]}
    if len(script) > 256 or "\n" in script:  # more than one argument may hold
        text = base64.b64encode(script.encode()).decode()
        command = {"ContainerEntrypoint": [
            "/bin/sh", "-c", 'printf %s "$@" | base64 -d > /tmp/program && exec /bin/sh /tmp/program', "sh"],
            "ContainerArguments": [text[at:at + 250] for at in range(0, len(text), 250)]}
    return {"TrainingImage": "trainyard/host", "TrainingInputMode": "File", **command, **more}


def channel(name, uri, **more):
    """One File-mode channel."""
    return {"ChannelName": name, **more,
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri,
                                            "S3DataDistributionType": "FullyReplicated"}}}


def start(prefix, script=None, **overrides):
    """Create a job and return its name."""
    name = fresh(prefix)
    client("sagemaker").create_training_job(**request_for(name, script, **overrides))
    return name


def describe(name):
    """DescribeTrainingJob."""
    return client("sagemaker").describe_training_job(TrainingJobName=name)


def wait_until(check, seconds=40, what="the condition"):
    """Look every 50 ms until `check` answers something true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := check():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true within {seconds} s")


def wait(name, seconds=60):
    """The description of the job once it is over."""

    def over():
        job = describe(name)
        return job if job["TrainingJobStatus"] in TERMINAL else None

    try:
        return wait_until(over, seconds, f"the end of {name}")
    except AssertionError as error:
        raise AssertionError(f"{error}; now {describe(name)['SecondaryStatusTransitions']}") from error


def run_shell(prefix, script, expect="Completed", **overrides):
    """Run a shell script as a job to its end; the job's name."""
    name = start(prefix, script, **overrides)
    job = wait(name)
    assert job["TrainingJobStatus"] == expect, (job.get("FailureReason"), log_lines(name)[-10:])
    return name


def streams(name):
    """Names of the job's log streams."""
    found = client("logs").describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=name + "/")
    return [stream["logStreamName"] for stream in found["logStreams"]]


def stream_events(stream):
    """All events of one stream, read page by page."""
    events, token = [], {}
    while True:
        page = client("logs").get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True, **token)
        if not page["events"]:
            return events
        events += page["events"]
        token = {"nextToken": page["nextForwardToken"]}


def log_events(name):
    """All events of the job's first stream."""
    return [event for stream in streams(name)[:1] for event in stream_events(stream)]


def all_lines(name):
    """The messages of every stream of a job of several nodes, one stream after the other."""
    return [event["message"] for stream in streams(name) for event in stream_events(stream)]


def log_lines(name):
    """The messages of the job's log, in order."""
    return [event["message"] for event in log_events(name)]


def wait_for_line(name, line, seconds=30):
    """Wait until the job printed the line."""

    def there():
        try:
            return any(line in text for text in log_lines(name))
        except client("logs").exceptions.ResourceNotFoundException:
            return False

    wait_until(there, seconds, f"line {line!r} of {name}")


def put(key, body=b"x", bucket=BUCKET):
    """Store one object; its URI."""
    client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    return f"s3://{bucket}/{key}"


def read(key, bucket=BUCKET):
    """The bytes of one object."""
    return client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()


def keys(prefix, bucket=BUCKET):
    """Keys below the prefix."""
    pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def archive(name, which="model"):
    """Members of the job's model.tar.gz or output.tar.gz: path -> (TarInfo, bytes)."""
    with tarfile.open(fileobj=io.BytesIO(read(f"out/{name}/output/{which}.tar.gz"))) as tar:
        return {member.name.removeprefix("./"): (member, tar.extractfile(member).read() if member.isfile() else None)
                for member in tar if member.name not in (".", "./")}


def tar_gz(files):
    """A tar.gz from path -> text, bytes or a prepared TarInfo."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            content = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def error_of(call, *arguments, **parameters):
    """(code, message, HTTP status) of the refusal that the call must get."""
    from botocore.exceptions import ClientError
    try:
        answer = call(*arguments, **parameters)
    except ClientError as error:
        detail = error.response["Error"]
        return detail["Code"], detail.get("Message", ""), error.response["ResponseMetadata"]["HTTPStatusCode"]
    raise AssertionError(f"no refusal, but {answer}")
