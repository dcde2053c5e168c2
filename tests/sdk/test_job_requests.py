# SPDX-License-Identifier: Apache-2.0
"""What CreateTrainingJob and its neighbours refuse, in AWS's words, and what they accept twice."""
import json

import pytest
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

import wire
import yard

NOT_FOUND = ("ValidationException", "Requested resource not found.", 400)


def refusal(**overrides):
    """(code, message, status) of a CreateTrainingJob that must be refused; nothing may be stored."""
    sagemaker = yard.unchecked("sagemaker")
    request = yard.request_for(overrides.pop("TrainingJobName", yard.fresh("bad")), "true", **overrides)
    found = yard.error_of(sagemaker.create_training_job, **request)
    assert yard.error_of(sagemaker.describe_training_job, TrainingJobName=request["TrainingJobName"])[0] == \
        "ValidationException"
    return found


def resources(**changes):
    return {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10, **changes}


def test_every_violation_is_named_at_once_in_the_words_of_aws():
    code, message, status = refusal(TrainingJobName="a_b", RoleArn="arn:aws:iam::12:role/shortish",
                                    ResourceConfig=resources(InstanceType="local"),
                                    StoppingCondition={"MaxRuntimeInSeconds": 0})
    assert (code, status) == ("ValidationException", 400)
    assert message.startswith("4 validation errors detected: ")
    parts = message.removeprefix("4 validation errors detected: ").split("; ")
    assert len(parts) == 4
    failed = "failed to satisfy constraint: Member must"
    assert any(p.startswith(f"Value 'a_b' at 'trainingJobName' {failed} satisfy regular expression pattern: ")
               and "[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}" in p for p in parts)
    assert any(p.startswith(f"Value 'arn:aws:iam::12:role/shortish' at 'roleArn' {failed} satisfy regular expression "
                            "pattern: ") for p in parts)
    assert any(p.startswith(f"Value 'local' at 'resourceConfig.instanceType' {failed} satisfy enum value set: [")
               and "ml.m5.xlarge" in p for p in parts)
    assert (f"Value '0' at 'stoppingCondition.maxRuntimeInSeconds' {failed} have value greater than or equal to 1"
            in parts)


def test_one_violation_is_one():
    image = "x" * 256
    code, message, _ = refusal(AlgorithmSpecification={**yard.algorithm("true"), "TrainingImage": image})
    assert code == "ValidationException"
    assert message == (
        f"1 validation error detected: Value '{image}' at 'algorithmSpecification.trainingImage' failed to satisfy "
        "constraint: Member must have length less than or equal to 255")


def test_missing_members_are_null_values():
    code, message, _ = refusal(RoleArn=None, StoppingCondition=None, ResourceConfig=None)
    assert code == "ValidationException" and message.startswith("3 validation errors detected: ")
    for member in ("roleArn", "stoppingCondition", "resourceConfig"):
        assert f"Value null at '{member}' failed to satisfy constraint: Member must not be null" in message


@pytest.mark.parametrize("overrides, words", [
    ({"HyperParameters": {"k": "v" * 2501}}, "Map value must satisfy constraint: [Member must have length less than or "
                                             "equal to 2500"),
    ({"HyperParameters": {f"k{i}": "v" for i in range(101)}}, "100"),
    ({"Environment": {"1BAD": "x"}}, "[a-zA-Z_][a-zA-Z0-9_]*"),
    ({"InputDataConfig": []}, "Member must have length greater than or equal to 1"),
    ({"Tags": [{"Key": "k", "Value": "v" * 257}]}, "256"),
    ({"Tags": [{"Key": "aws:me", "Value": "v"}]}, "aws:"),
    ({"OutputDataConfig": {"S3OutputPath": "ftp://x/y"}}, "^(https|s3)://"),
    ({"ResourceConfig": resources(InstanceCount=0)}, "resourceConfig.instanceCount"),
    ({"RetryStrategy": {"MaximumRetryAttempts": 31}}, "30"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else None)
def test_limits(overrides, words):
    code, message, status = refusal(**overrides)
    assert (code, status) == ("ValidationException", 400)
    assert words in message


def test_wrong_json_types_are_a_serialization_error():
    code, message, status = raw_create({"TrainingJobName": 5})
    assert (code, status) == ("SerializationException", 400)
    assert message


def raw_create(document):
    """Send a CreateTrainingJob of any JSON at all."""
    answer = wire.send("POST", "/", json.dumps(document).encode(), "sagemaker",
                       {"X-Amz-Target": "SageMaker.CreateTrainingJob", "Content-Type": "application/x-amz-json-1.1"})
    body = json.loads(answer.content)
    return body["__type"].split("#")[-1], body.get("message", body.get("Message")), answer.status_code


def test_a_name_taken_is_refused_in_any_case():
    name = yard.run_shell("Twice", "true")
    sagemaker = yard.client("sagemaker")
    with pytest.raises(sagemaker.exceptions.ResourceInUse) as caught:
        sagemaker.create_training_job(**yard.request_for(name, "true"))
    assert caught.value.response["Error"]["Message"] == (
        "Training job names must be unique within an AWS account and region, and a training job with this name already "
        f"exists (arn:aws:sagemaker:us-east-1:{yard.ACCOUNT}:training-job/{name.lower()})")
    with pytest.raises(sagemaker.exceptions.ResourceInUse):
        sagemaker.create_training_job(**yard.request_for(name.upper(), "true"))


def test_a_create_whose_answer_was_lost_is_repeated_without_harm():
    import boto3
    sagemaker = boto3.session.Session().client("sagemaker")
    name, seen = yard.fresh("retry"), []

    def lose_first_answer(request, **_):
        seen.append(request.headers["amz-sdk-invocation-id"])
        if len(seen) == 1:
            assert URLLib3Session().send(request).status_code == 200
            raise ConnectionClosedError(endpoint_url=request.url)

    sagemaker.meta.events.register("before-send.sagemaker.CreateTrainingJob", lose_first_answer)
    arn = sagemaker.create_training_job(**yard.request_for(name, "echo once"))["TrainingJobArn"]
    assert arn.endswith("training-job/" + name)
    assert len(seen) == 2 and seen[0] == seen[1]
    yard.wait(name)
    assert yard.log_lines(name).count("once") == 1
    with pytest.raises(sagemaker.exceptions.ResourceInUse):
        sagemaker.create_training_job(**yard.request_for(name, "echo once"))


def test_unknown_jobs():
    sagemaker = yard.client("sagemaker")
    for call in (sagemaker.describe_training_job, sagemaker.stop_training_job, sagemaker.update_training_job,
                 sagemaker.delete_training_job):
        assert yard.error_of(call, TrainingJobName="nobody-knows") == NOT_FOUND


@pytest.mark.parametrize("script, status", [("true", "Completed"), ("exit 1", "Failed")])
def test_a_finished_job_cannot_be_stopped(script, status):
    name = yard.run_shell("over", script, expect=status)
    assert yard.error_of(yard.client("sagemaker").stop_training_job, TrainingJobName=name) == (
        "ValidationException", f"The request was rejected because the training job is in status {status}", 400)


def test_the_real_services_text_for_an_empty_prefix():
    code, message, _ = refusal(InputDataConfig=[yard.channel("train", f"s3://{yard.BUCKET}/nothing/here")])
    assert code == "ValidationException"
    assert message == (
        f'No S3 objects found under S3 URL "s3://{yard.BUCKET}/nothing/here" given in input data source. Please ensure '
        "that the bucket exists in the selected region (us-east-1), that objects exist under that S3 prefix, and that "
        f'the role "{yard.ROLE}" has "s3:ListBucket" permissions on bucket "{yard.BUCKET}".')
    code, message, _ = refusal(InputDataConfig=[yard.channel("train", "s3://no-such-bucket/x")])
    assert code == "ValidationException" and 'on bucket "no-such-bucket"' in message


def test_old_spelling_of_the_scheme():
    """The pattern of the service allows lower case only; articles write S3:// and mean it."""
    yard.put("old/spelling.txt", b"here")
    name = yard.run_shell("old", "cat /opt/ml/input/data/train/spelling.txt; echo x > /opt/ml/model/x",
                          InputDataConfig=[yard.channel("train", f"S3://{yard.BUCKET}/old")],
                          OutputDataConfig={"S3OutputPath": f"S3://{yard.BUCKET}/out"})
    assert "here" in yard.log_lines(name)
    assert yard.archive(name)["x"][1] == b"x\n"


def test_an_output_bucket_that_does_not_exist_is_named():
    code, message, _ = refusal(OutputDataConfig={"S3OutputPath": "s3://no-such-bucket/out"})
    assert code == "ValidationException" and "no-such-bucket" in message


def test_an_image_nobody_maps_is_refused_with_the_nearest_choices():
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-trainin:2.8"
    code, message, status = refusal(AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"})
    assert (code, status) == ("ValidationException", 400)
    assert image in message and "pytorch-training" in message and "[[environments]]" in message


def test_a_gpu_type_is_refused_unless_mapped():
    code, message, _ = refusal(ResourceConfig=resources(InstanceType="ml.p4d.24xlarge"))
    assert code == "ValidationException"
    assert "ml.p4d.24xlarge" in message and "8 GPUs" in message and "instance map" in message


@pytest.mark.parametrize("regex", ["(", "acc=(?=x)", "no group"])
def test_a_metric_definition_that_cannot_work_is_named(regex):
    code, message, _ = refusal(AlgorithmSpecification=yard.algorithm("true", MetricDefinitions=[
        {"Name": "acc", "Regex": "acc=([0-9.]+)"}, {"Name": "broken", "Regex": regex}]))
    assert code == "ValidationException"
    assert "broken" in message


def test_contradictions_are_named():
    code, message, _ = refusal(EnableManagedSpotTraining=True)
    assert code == "ValidationException" and "MaxWaitTimeInSeconds" in message
    uri = yard.put("twice/x")
    code, message, _ = refusal(InputDataConfig=[yard.channel("a", uri), yard.channel("a", uri)])
    assert code == "ValidationException" and '"a"' in message
    code, message, _ = refusal(AlgorithmSpecification={**yard.algorithm("true"), "AlgorithmName": "mine"})
    assert code == "ValidationException" and "AlgorithmName" in message


@pytest.mark.parametrize("overrides, word", [
    ({"ResourceConfig": resources(InstanceCount=101)}, "instanceCount"),
    ({"ModelPackageConfig": {"ModelPackageGroupArn": "arn:aws:sagemaker:us-east-1:000000000000:model-package-group/g"}},
     "modelPackageConfig"),
    ({"AlgorithmSpecification": yard.algorithm("true", TrainingInputMode="Pipe")}, "Pipe"),
])
def test_what_is_not_offered_is_refused_by_name(overrides, word):
    code, message, status = refusal(**overrides)
    assert (code, status) == ("ValidationException", 400)
    assert word.lower() in message.lower()


def test_operations_known_but_not_supported_name_themselves():
    sagemaker = yard.unchecked("sagemaker")
    for call, name in ((sagemaker.list_endpoints, "ListEndpoints"),
                       (sagemaker.create_processing_job, "CreateProcessingJob"),
                       (sagemaker.create_hyper_parameter_tuning_job, "CreateHyperParameterTuningJob")):
        code, message, status = yard.error_of(call)
        assert status == 400 and name in message, (code, message)
        assert code in ("ValidationException", "UnsupportedOperationException")
