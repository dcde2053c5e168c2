# SPDX-License-Identifier: Apache-2.0
"""STS, IAM, CloudWatch, ECR, EC2: what training flows ask of them, in every dialect; and refusals of the wire."""
import datetime
import json
import re
import subprocess
import sys

import boto3
import pytest

import wire
import yard

JSON_11 = "application/x-amz-json-1.1"


# ---- who am I

SDK_QUESTIONS = """
import json, socket
peers, connect = set(), socket.socket.connect
def recording(self, address):
    peers.add(str(address[0]))
    return connect(self, address)
socket.socket.connect = recording
import sagemaker
session = sagemaker.Session()
print(json.dumps({"bucket": session.default_bucket(), "role": sagemaker.get_execution_role(session),
                  "account": session.account_id(), "expanded": session.expand_role("TrainyardExecutionRole"),
                  "uri": session.upload_string_as_file_body("hi", session.default_bucket(), "sdk/key"),
                  "peers": sorted(peers)}))
"""


def test_the_sdk_asks_the_real_sts_host_and_is_answered_here():
    """default_bucket, get_execution_role and account_id go to https://sts.us-east-1.amazonaws.com whatever the
    endpoint variable says. Here they come back to the daemon, and the process talks to nobody else."""
    before = answered("sts")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SDK_QUESTIONS], capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["account"] == yard.ACCOUNT
    assert found["bucket"] == f"sagemaker-us-east-1-{yard.ACCOUNT}"
    assert found["role"] == found["expanded"] == f"arn:aws:iam::{yard.ACCOUNT}:role/TrainyardExecutionRole"
    assert yard.read("sdk/key", found["bucket"]) == b"hi"
    assert found["peers"] == ["127.0.0.1"]
    assert answered("sts") >= before + 3


def answered(service):
    """How many requests to the service the daemon answered with success."""
    text = wire.send("GET", "/metrics", signed=False).content.decode()
    found = re.search(rf'^trainyard_requests_total{{service="{service}",status="200"}} (\d+)$', text, re.MULTILINE)
    return int(found.group(1)) if found else 0


@pytest.mark.parametrize("region, host", [("us-east-1", "sts.us-east-1.amazonaws.com"),
                                          ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
                                          ("eu-central-1", "sts.amazonaws.com")])
def test_sts_by_its_own_host_names(region, host):
    sts = boto3.session.Session(region_name=region).client("sts", endpoint_url=f"https://{host}")
    caller = sts.get_caller_identity()
    partition = "aws-cn" if region.startswith("cn-") else "aws"
    assert caller["Account"] == yard.ACCOUNT
    assert re.fullmatch(rf"arn:{partition}:sts::{yard.ACCOUNT}:assumed-role/TrainyardExecutionRole/.+", caller["Arn"])
    assert caller["UserId"]


def test_china():
    sagemaker = yard.client("sagemaker", "cn-north-1")
    name = yard.fresh("china")
    role = yard.ROLE.replace("arn:aws:", "arn:aws-cn:")
    arn = sagemaker.create_training_job(**yard.request_for(name, "true", RoleArn=role))["TrainingJobArn"]
    assert arn == f"arn:aws-cn:sagemaker:cn-north-1:{yard.ACCOUNT}:training-job/{name}"
    yard.wait_until(lambda: sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "Completed")
    logs = yard.client("logs", "cn-north-1")
    streams = logs.describe_log_streams(logGroupName=yard.GROUP, logStreamNamePrefix=name)["logStreams"]
    assert streams[0]["arn"].startswith("arn:aws-cn:logs:cn-north-1:")


def test_assumed_roles_work_as_keys():
    sts = yard.client("sts")
    given = sts.assume_role(RoleArn=yard.ROLE, RoleSessionName="me")["Credentials"]
    session = boto3.session.Session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    assert ":assumed-role/TrainyardExecutionRole/" in session.client("sts").get_caller_identity()["Arn"]
    assert "Buckets" in session.client("s3").list_buckets()
    assert given["Expiration"] > datetime.datetime.now(datetime.timezone.utc)
    broken = boto3.session.Session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"] + "x")
    assert yard.error_of(broken.client("s3").list_buckets)[0] in ("InvalidToken", "ExpiredToken")


def test_roles():
    iam = yard.client("iam")
    role = iam.get_role(RoleName="TrainyardExecutionRole")["Role"]
    assert role["Arn"] == yard.ROLE
    principal = role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"]
    assert "sagemaker.amazonaws.com" in principal
    actions = ["sagemaker:CreateTrainingJob", "s3:PutObject"]
    results = iam.simulate_principal_policy(PolicySourceArn=yard.ROLE, ActionNames=actions)["EvaluationResults"]
    assert [(r["EvalActionName"], r["EvalDecision"]) for r in results] == [(action, "allowed") for action in actions]


def test_registry_and_instance_questions():
    ecr = yard.client("ecr")
    assert ecr.get_authorization_token()["authorizationData"][0]["authorizationToken"]
    assert "Vpcs" in yard.client("ec2").describe_vpcs()


# ---- CloudWatch metrics in three dialects


@pytest.fixture(scope="module")
def measured(daemon):
    """A job whose metric `loss` was 4, 2, 3 and whose `acc` was 0.5."""
    script = "echo loss=4; echo loss=2; echo acc=0.5; echo loss=3"
    definitions = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}, {"Name": "acc", "Regex": "acc=([0-9.]+)"}]
    return yard.run_shell(
        "measured", script, AlgorithmSpecification=yard.algorithm(script, MetricDefinitions=definitions))


def window():
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"StartTime": now - datetime.timedelta(minutes=10), "EndTime": now + datetime.timedelta(minutes=2)}


@pytest.mark.parametrize("protocol", ["json", "query", "smithy-rpc-v2-cbor"])
def test_metrics_in_every_dialect(measured, protocol):
    cloudwatch = yard.speaking("cloudwatch", protocol)
    dimension = [{"Name": "TrainingJobName", "Value": measured}]
    space = "/aws/sagemaker/TrainingJobs"
    found = cloudwatch.list_metrics(Namespace=space, Dimensions=dimension)["Metrics"]
    assert sorted(metric["MetricName"] for metric in found) == ["acc", "loss"]
    statistics = cloudwatch.get_metric_statistics(
        Namespace=space, MetricName="loss", Dimensions=dimension, Period=60,
        Statistics=["Average", "Minimum", "Maximum", "Sum", "SampleCount"], **window())
    assert statistics["Label"] == "loss"
    points = statistics["Datapoints"]
    assert sum(point["SampleCount"] for point in points) == 3 and sum(point["Sum"] for point in points) == 9
    assert min(point["Minimum"] for point in points) == 2 and max(point["Maximum"] for point in points) == 4
    assert all(point["Timestamp"].second == 0 for point in points)
    accuracy = {"Namespace": space, "MetricName": "acc", "Dimensions": dimension}
    query = {"Id": "m1", "MetricStat": {"Metric": accuracy, "Period": 60, "Stat": "Average"}}
    data = cloudwatch.get_metric_data(MetricDataQueries=[query], **window())["MetricDataResults"]
    assert [(result["Id"], result["Values"]) for result in data] == [("m1", [0.5])]
    now = datetime.datetime.now(datetime.timezone.utc)
    own = {"Namespace": yard.fresh("Own/Space")}
    mine = {"MetricName": "mine", "Dimensions": [{"Name": "d", "Value": "ü"}]}
    cloudwatch.put_metric_data(**own, MetricData=[
        {**mine, "Value": value, "Timestamp": now, "Unit": "None"} for value in (1.5, 2.5)])
    points = cloudwatch.get_metric_statistics(
        **own, **mine, Period=60, Statistics=["Average"], **window())["Datapoints"]
    assert [point["Average"] for point in points] == [2.0]


@pytest.mark.parametrize("protocol", ["json", "query", "smithy-rpc-v2-cbor"])
def test_metric_mistakes_in_every_dialect(protocol):
    cloudwatch = yard.speaking("cloudwatch", protocol)
    times = window()
    code, message, status = yard.error_of(
        cloudwatch.get_metric_statistics, Namespace="n", MetricName="m", Period=60, Statistics=["Average"],
        StartTime=times["EndTime"], EndTime=times["StartTime"])
    assert status == 400 and code in ("InvalidParameterCombination", "InvalidParameterCombinationException",
                                      "InvalidParameterValue", "ValidationError"), (code, message)
    assert message


def test_the_sdk_reads_metrics_as_a_table(measured):
    """TrainingJobAnalytics' own calls."""
    cloudwatch = yard.client("cloudwatch")
    job = yard.describe(measured)
    points = cloudwatch.get_metric_statistics(
        Namespace="/aws/sagemaker/TrainingJobs", MetricName="loss", Period=60, Statistics=["Average"],
        Dimensions=[{"Name": "TrainingJobName", "Value": measured}], StartTime=job["TrainingStartTime"],
        EndTime=job["TrainingEndTime"] + datetime.timedelta(minutes=1))["Datapoints"]
    assert points, "a point of the first minute must be inside the window although its time is cut to the minute"


# ---- the wire


def post(target, body, **options):
    """(status, error code, message) of a JSON request."""
    answer = wire.send("POST", "/", body, "sagemaker", {"X-Amz-Target": target, "Content-Type": JSON_11}, **options)
    document = json.loads(answer.content)
    assert answer.headers.get("x-amzn-requestid")
    text = document.get("message", document.get("Message"))
    return answer.status_code, document.get("__type", "").split("#")[-1], text


def test_unknown_operations_and_services():
    status, code, message = post("SageMaker.DescribeTrainingJop", b"{}")
    assert (status, code) == (400, "UnknownOperationException") and "DescribeTrainingJob" in message
    status, code, _ = post("Nobody_20200101.DoIt", b"{}")
    assert status in (400, 404) and code == "UnknownOperationException"
    answer = wire.send("POST", "/", b"Action=Nonsense&Version=2011-06-15", "sts",
                       {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"})
    assert answer.status_code == 400 and b"Nonsense" in answer.content
    assert b"<Code>NotImplemented</Code>" in answer.content or b"<Code>InvalidAction</Code>" in answer.content


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"TrainingJobName": 1}', b'{"a": "\xff"}', b"[" * 100_000,
                                  b'{"x":1}garbage', b'"text"'],
                         ids=["cut", "list", "type", "utf8", "deep", "tail", "text"])
def test_malformed_json(body):
    status, code, message = post("SageMaker.DescribeTrainingJob", body)
    assert (status, code) == (400, "SerializationException")
    assert message


def test_an_oversize_document_is_refused_and_the_daemon_lives():
    def try_it():
        try:
            return post("SageMaker.DescribeTrainingJob", b'{"x":"' + b"y" * (64 << 20) + b'"}')
        except Exception as error:  # the connection may be closed before all was sent
            return 413, type(error).__name__, ""

    status, _, _ = try_it()
    assert status in (400, 413)
    assert yard.client("sts").get_caller_identity()["Account"] == yard.ACCOUNT


def test_an_oversize_header_is_refused():
    answer = wire.send("GET", "/", headers={"X-Long": "y" * 200_000}, signed=False)
    assert answer.status_code in (400, 431)
    assert yard.cli("jobs").returncode == 0


def test_a_signature_of_another_hour_is_refused(monkeypatch):
    import botocore.auth
    real = botocore.auth.get_current_datetime

    def late(*arguments, **options):
        return real(*arguments, **options) - datetime.timedelta(hours=1)

    monkeypatch.setattr(botocore.auth, "get_current_datetime", late)
    status, code, message = post("SageMaker.ListTrainingJobs", b"{}")
    assert (status, code) == (400, "InvalidSignatureException")
    assert "expired" in message.lower() or "skew" in message.lower() or "time" in message.lower()
    answer = wire.send("GET", "/", service="s3")
    assert answer.status_code == 403 and b"RequestTimeTooSkewed" in answer.content


def test_unsigned_and_wrongly_signed_requests_are_refused():
    status, code, _ = post("SageMaker.ListTrainingJobs", b"{}", signed=False)
    assert status in (400, 403) and code == "MissingAuthenticationTokenException"
    keys = wire.keys()
    keys.secret_key = "wrong"
    assert post("SageMaker.ListTrainingJobs", b"{}", credentials=keys)[1] == "InvalidSignatureException"
    keys.access_key = "AKIDNOBODYKNOWSTHIS0"
    assert post("SageMaker.ListTrainingJobs", b"{}", credentials=keys)[1] == "UnrecognizedClientException"

    def swap(request):
        request.data = b'{"NameContains":"swapped"}'

    assert post("SageMaker.ListTrainingJobs", b"{}", tamper=swap)[1] == "InvalidSignatureException"

    def garble(request):
        request.headers.replace_header("Authorization", "AWS4-HMAC-SHA256 Credential=x")

    assert post("SageMaker.ListTrainingJobs", b"{}", tamper=garble)[1] == "IncompleteSignatureException"


def test_health_is_open_and_answers_at_once():
    answer = wire.send("GET", "/healthz", signed=False)
    assert answer.status_code == 200
