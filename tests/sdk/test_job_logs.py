# SPDX-License-Identifier: Apache-2.0
"""CloudWatch Logs as clients read them while and after a job runs."""
import re

import pytest

import yard

GROUP = yard.GROUP


@pytest.fixture(scope="module")
def hundred(daemon):
    """A finished job that printed a hundred numbered lines."""
    return yard.run_shell("lines", 'i=0; while [ $i -lt 100 ]; do echo "line $i"; i=$((i+1)); done')


def page(name, **arguments):
    return yard.client("logs").get_log_events(logGroupName=GROUP, logStreamName=yard.streams(name)[0], **arguments)


def test_every_line_is_there_once_and_in_order(hundred):
    lines = [line for line in yard.log_lines(hundred) if line.startswith("line ")]
    assert lines == [f"line {i}" for i in range(100)]
    times = [event["timestamp"] for event in yard.log_events(hundred)]
    assert times == sorted(times)
    job = yard.describe(hundred)
    assert times[0] / 1000 >= job["CreationTime"].timestamp() - 1
    assert times[-1] / 1000 <= job["LastModifiedTime"].timestamp() + 1
    assert all(event["ingestionTime"] >= event["timestamp"] for event in yard.log_events(hundred))


def test_the_log_says_what_the_image_stands_for(hundred):
    head = yard.log_lines(hundred)[:2]
    assert any("trainyard/host" in line for line in head), head


def test_one_stream_per_host_and_never_a_token_for_a_job(hundred):
    found = yard.client("logs").describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=hundred + "/",
                                                     orderBy="LogStreamName", limit=1)
    assert "nextToken" not in found
    stream, = found["logStreams"]
    assert re.fullmatch(re.escape(hundred) + r"/algo-1-\d+", stream["logStreamName"])
    for member in ("creationTime", "firstEventTimestamp", "lastEventTimestamp", "lastIngestionTime"):
        assert isinstance(stream[member], int) and stream[member] > 1e12
    assert stream["arn"].startswith(f"arn:aws:logs:us-east-1:{yard.ACCOUNT}:log-group:{GROUP}:log-stream:")


def test_a_job_without_output_has_a_stream_all_the_same():
    assert len(yard.streams(yard.run_shell("mute", "true"))) == 1


def test_the_forward_token_is_stable_at_the_end_and_continues(hundred):
    first = page(hundred, startFromHead=True, limit=10)
    assert len(first["events"]) == 10 and first["nextBackwardToken"]
    second = page(hundred, startFromHead=True, limit=200, nextToken=first["nextForwardToken"])
    everything = [event["message"] for event in first["events"] + second["events"]]
    assert everything == yard.log_lines(hundred)
    end = page(hundred, startFromHead=True, nextToken=second["nextForwardToken"])
    assert end["events"] == [] and end["nextForwardToken"] == second["nextForwardToken"]
    again = page(hundred, startFromHead=True, nextToken=end["nextForwardToken"])
    assert again["events"] == [] and again["nextForwardToken"] == end["nextForwardToken"]
    back = page(hundred, nextToken=second["nextBackwardToken"], limit=5)
    assert [event["message"] for event in back["events"]] == everything[5:10]


def test_a_token_kept_while_the_job_runs_goes_on_where_it_was():
    name = yard.start("follow", "echo one; sleep 0.7; echo two")
    yard.wait_for_line(name, "one")
    token = page(name, startFromHead=True)["nextForwardToken"]
    yard.wait(name)
    rest = [event["message"] for event in page(name, startFromHead=True, nextToken=token)["events"]]
    assert rest == ["two"]


def test_the_tail_is_the_default_and_times_bound_it(hundred):
    tail = page(hundred, limit=3)["events"]
    assert [event["message"] for event in tail] == ["line 97", "line 98", "line 99"]
    last = tail[-1]["timestamp"]
    assert page(hundred, startFromHead=True, startTime=last)["events"][-1]["message"] == "line 99"  # inclusive
    assert page(hundred, startFromHead=True, startTime=last + 1)["events"] == []
    assert page(hundred, startFromHead=True, endTime=1000)["events"] == []


def test_filter_log_events(hundred):
    logs = yard.client("logs")
    found = logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix=hundred + "/", filterPattern='"line 7"')
    assert [event["message"] for event in found["events"]] == ["line 7"] + [f"line 7{i}" for i in range(10)]
    assert len({event["eventId"] for event in found["events"]}) == 11
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=GROUP, logStreamNames=yard.streams(hundred), interleaved=True, PaginationConfig={"PageSize": 30})
    assert [e["message"] for p in pages for e in p["events"]] == yard.log_lines(hundred)


def test_unknown_groups_and_streams():
    logs = yard.client("logs")
    with pytest.raises(logs.exceptions.ResourceNotFoundException, match="The specified log group does not exist."):
        logs.describe_log_streams(logGroupName="/aws/nothing")
    with pytest.raises(logs.exceptions.ResourceNotFoundException, match="The specified log stream does not exist."):
        logs.get_log_events(logGroupName=GROUP, logStreamName="nobody/algo-1-1")


def test_a_million_bytes_without_a_newline_arrive_complete():
    name = yard.run_shell("wide", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo after")
    wide = [line for line in yard.log_lines(name) if line.startswith("x")]
    assert sum(map(len, wide)) == 1_000_000
    assert all(len(line) <= 262_144 for line in wide)
    assert yard.log_lines(name)[-1] == "after"


def test_unicode_and_bytes_that_are_none():
    script = "printf 'Grüße – 日本 🚂\\n\\377\\376 bad\\n\\ttab\\n\\nafter empty\\nno newline at end'"
    name = yard.run_shell("text", script)
    lines = yard.log_lines(name)
    assert "Grüße – 日本 🚂" in lines
    assert any(line.endswith(" bad") and "\ufffd" in line for line in lines)
    assert "\ttab" in lines
    assert lines[-1] == "no newline at end"


def test_both_outputs_go_to_the_log():
    lines = yard.log_lines(yard.run_shell("both", "echo to stdout; echo to stderr >&2"))
    assert "to stdout" in lines and "to stderr" in lines


def test_log_groups_are_listed():
    groups = yard.client("logs").describe_log_groups(logGroupNamePrefix="/aws/sagemaker")["logGroups"]
    assert GROUP in [group["logGroupName"] for group in groups]
