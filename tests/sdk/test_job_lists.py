# SPDX-License-Identifier: Apache-2.0
"""Lists, tags, search, update and delete of jobs."""
import datetime

import pytest

import yard


@pytest.fixture(scope="module")
def family(daemon):
    """Three finished jobs whose names share a part nobody else has: two completed, one failed."""
    mark = yard.fresh("fam")
    names = []
    for letter, script in (("b", "true"), ("a", "exit 1"), ("c", "true")):
        name = f"{letter}-{mark}"
        yard.client("sagemaker").create_training_job(**yard.request_for(name, script, Tags=[
            {"Key": "family", "Value": mark}, {"Key": "letter", "Value": letter}]))
        yard.wait(name)
        names.append(name)
    return mark, names


def listed(mark, **arguments):
    found = yard.client("sagemaker").list_training_jobs(NameContains=mark, **arguments)
    return [row["TrainingJobName"] for row in found["TrainingJobSummaries"]]


def test_a_summary_has_the_times_and_the_status(family):
    mark, names = family
    rows = yard.client("sagemaker").list_training_jobs(NameContains=mark)["TrainingJobSummaries"]
    assert [row["TrainingJobName"] for row in rows] == names[::-1]  # newest first
    for row in rows:
        job = yard.describe(row["TrainingJobName"])
        for member in ("TrainingJobArn", "CreationTime", "TrainingEndTime", "LastModifiedTime", "TrainingJobStatus"):
            assert row[member] == job[member]


def test_lists_sort_and_filter(family):
    mark, names = family
    assert listed(mark, SortBy="Name", SortOrder="Ascending") == sorted(names)
    assert listed(mark, SortBy="Name", SortOrder="Descending") == sorted(names, reverse=True)
    assert listed(mark, SortBy="CreationTime", SortOrder="Ascending") == names
    assert listed(mark, SortBy="Status", SortOrder="Descending")[0] == names[1]
    assert listed(mark, StatusEquals="Failed") == [names[1]]
    assert listed(mark, StatusEquals="Stopped") == []
    second = yard.describe(names[1])
    assert listed(mark, CreationTimeAfter=second["CreationTime"]) in ([names[2]], [names[2], names[1]])
    assert listed(mark, CreationTimeBefore=second["CreationTime"]) in ([names[0]], [names[1], names[0]])
    assert listed(mark, LastModifiedTimeAfter=datetime.datetime.now() + datetime.timedelta(hours=1)) == []
    assert listed(mark, LastModifiedTimeBefore=datetime.datetime.now() + datetime.timedelta(hours=1)) == names[::-1]
    assert listed(mark, WarmPoolStatusEquals="Available") == []


def test_lists_come_in_pages(family):
    mark, names = family
    sagemaker = yard.client("sagemaker")
    page = sagemaker.list_training_jobs(NameContains=mark, MaxResults=2)
    assert len(page["TrainingJobSummaries"]) == 2
    rest = sagemaker.list_training_jobs(NameContains=mark, MaxResults=2, NextToken=page["NextToken"])
    assert [row["TrainingJobName"] for row in rest["TrainingJobSummaries"]] == [names[0]]
    assert "NextToken" not in rest
    pages = sagemaker.get_paginator("list_training_jobs").paginate(
        NameContains=mark, SortBy="Name", PaginationConfig={"PageSize": 1})
    assert [row["TrainingJobName"] for page in pages for row in page["TrainingJobSummaries"]] == sorted(names)


def test_a_page_token_nobody_gave_is_refused():
    code, message, status = yard.error_of(yard.client("sagemaker").list_training_jobs, NextToken="garbage")
    assert (code, status) == ("ValidationException", 400) and "oken" in message
    code, message, _ = yard.error_of(yard.unchecked("sagemaker").list_training_jobs, MaxResults=101)
    assert code == "ValidationException"
    assert "Value '101' at 'maxResults' failed to satisfy constraint" in message


def test_tags_are_added_replaced_listed_and_deleted(family):
    mark, names = family
    sagemaker = yard.client("sagemaker")
    arn = yard.describe(names[0])["TrainingJobArn"]

    def tags():
        pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    assert tags() == {"family": mark, "letter": "b"}
    answer = sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "letter", "Value": "B"}, {"Key": "new", "Value": "ü"}])
    assert {tag["Key"]: tag["Value"] for tag in answer["Tags"]} == {"family": mark, "letter": "B", "new": "ü"}
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["new", "never there"])
    assert tags() == {"family": mark, "letter": "B"}
    code, message, _ = yard.error_of(sagemaker.list_tags, ResourceArn=arn + "x")
    assert (code, message) == ("ValidationException", "Requested resource not found.")
    code, _, _ = yard.error_of(sagemaker.add_tags, ResourceArn=arn,
                               Tags=[{"Key": f"k{i}", "Value": "v"} for i in range(50)])
    assert code in ("ValidationException", "ResourceLimitExceeded")
    assert tags() == {"family": mark, "letter": "B"}


def test_search_by_name_status_and_tag(family):
    mark, names = family
    sagemaker = yard.client("sagemaker")

    def search(*filters):
        found = sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": list(filters)})
        return sorted(row["TrainingJob"]["TrainingJobName"] for row in found["Results"])

    contains = {"Name": "TrainingJobName", "Operator": "Contains", "Value": mark}
    assert search(contains) == sorted(names)
    assert search(contains, {"Name": "TrainingJobStatus", "Operator": "Equals", "Value": "Failed"}) == [names[1]]
    assert search({"Name": "Tags.family", "Operator": "Equals", "Value": mark},
                  {"Name": "Tags.letter", "Operator": "Equals", "Value": "c"}) == [names[2]]
    record = sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": [
        {"Name": "TrainingJobName", "Operator": "Equals", "Value": names[2]}]})["Results"][0]["TrainingJob"]
    assert record["Tags"] == [{"Key": "family", "Value": mark}, {"Key": "letter", "Value": "c"}]
    assert record["SecondaryStatusTransitions"][-1]["Status"] == "Completed"


def test_an_update_is_recorded_while_the_job_runs_and_refused_afterwards():
    sagemaker = yard.client("sagemaker")
    name = yard.start("update", "echo up; sleep 30")
    yard.wait_for_line(name, "up")
    answer = sagemaker.update_training_job(TrainingJobName=name, ProfilerConfig={"DisableProfiler": True},
                                           ResourceConfig={"KeepAlivePeriodInSeconds": 60})
    job = yard.describe(name)
    assert answer["TrainingJobArn"] == job["TrainingJobArn"]
    assert job["ProfilingStatus"] == "Disabled"
    assert job["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 60
    assert job["ResourceConfig"]["InstanceType"] == "ml.m5.xlarge"
    code, _, _ = yard.error_of(sagemaker.delete_training_job, TrainingJobName=name)
    assert code == "ResourceInUse"
    sagemaker.stop_training_job(TrainingJobName=name)
    yard.wait(name)


def test_a_deleted_job_is_gone_and_its_name_free():
    sagemaker = yard.client("sagemaker")
    name = yard.run_shell("delete", "echo first > /opt/ml/model/m")
    sagemaker.delete_training_job(TrainingJobName=name)
    code, message, _ = yard.error_of(sagemaker.describe_training_job, TrainingJobName=name)
    assert (code, message) == ("ValidationException", "Requested resource not found.")
    assert listed(name) == []
    assert yard.archive(name)["m"][1] == b"first\n"
    sagemaker.create_training_job(**yard.request_for(name, "echo second"))
    assert yard.wait(name)["TrainingJobStatus"] == "Completed"


def test_regions_are_apart():
    name = yard.run_shell("region", "true")
    elsewhere = yard.client("sagemaker", "eu-west-1")
    assert yard.error_of(elsewhere.describe_training_job, TrainingJobName=name)[1] == "Requested resource not found."
    elsewhere.create_training_job(**yard.request_for(name, "echo $AWS_REGION > /opt/ml/model/region"))
    job = yard.wait_until(lambda: (lambda j: j if j["TrainingJobStatus"] in yard.TERMINAL else None)(
        elsewhere.describe_training_job(TrainingJobName=name)))
    assert job["TrainingJobArn"] == f"arn:aws:sagemaker:eu-west-1:{yard.ACCOUNT}:training-job/{name}"
    assert yard.archive(name)["region"][1] == b"eu-west-1\n"
