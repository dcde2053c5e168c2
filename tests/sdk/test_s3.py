# SPDX-License-Identifier: Apache-2.0
"""The object store as boto3 uses it."""
import base64
import hashlib
import io
import os
import time
import urllib.error
import urllib.request
import zlib

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

import wire
import yard

ODD_KEYS = ["plain", "a/b/c.txt", "sp ace", "plus+plus", "per%20cent", "ümläut/日本", "tilde~", "q?a=b&c#d",
            "'quote'", 'dou"ble', "<xml>&amp;", "a//b", "../up", "end/", "=x", "new\nline"]


@pytest.fixture(scope="module")
def s3(daemon):
    return yard.client("s3")


def fetch(url, data=None, method=None, headers=None):
    """(status, body) without any client of AWS in between, straight and not through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data, headers or {}, method=method), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_put_get_head(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"hello", ContentType="text/x", Metadata={"who": "me"},
                        CacheControl="no-store")
    assert put["ETag"] == f'"{hashlib.md5(b"hello").hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"hello"
    for answer in (got, s3.head_object(Bucket=bucket, Key="k")):
        assert answer["ContentLength"] == 5
        assert answer["ContentType"] == "text/x"
        assert answer["Metadata"] == {"who": "me"}
        assert answer["CacheControl"] == "no-store"
        assert answer["ETag"] == put["ETag"]
        assert abs(answer["LastModified"].timestamp() - time.time()) < 60
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b""
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_object(Bucket=bucket, Key="k")  # deleting nothing succeeds
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=bucket, Key="k")


def test_multipart_upload_and_ranged_download(s3, bucket, tmp_path):
    data = os.urandom(1 << 20) * 20
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(data)
    s3.upload_file(str(source), bucket, "big", ExtraArgs={"Metadata": {"x": "1"}, "ServerSideEncryption": "aws:kms"})
    head = s3.head_object(Bucket=bucket, Key="big")
    assert head["ContentLength"] == len(data)
    parts = [hashlib.md5(data[at:at + (8 << 20)]).digest() for at in range(0, len(data), 8 << 20)]
    assert head["ETag"] == f'"{hashlib.md5(b"".join(parts)).hexdigest()}-3"'
    assert head["Metadata"] == {"x": "1"} and head["ServerSideEncryption"] == "aws:kms"
    s3.download_file(bucket, "big", str(target))
    assert target.read_bytes() == data
    stream = io.BytesIO()
    s3.download_fileobj(bucket, "big", stream)
    assert stream.getvalue() == data


def test_multipart_by_hand(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    five = 5 << 20
    two = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=2, Body=b"tail")["ETag"]
    one = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x" * five)["ETag"]
    assert [p["PartNumber"] for p in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]] == [1, 2]
    assert upload in [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]]
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=bucket, Key="m")

    def complete(*parts):
        return s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={
            "Parts": [{"PartNumber": number, "ETag": tag} for number, tag in parts]})

    assert yard.error_of(complete, (2, two), (1, one))[0] == "InvalidPartOrder"
    assert yard.error_of(complete, (1, two))[0] == "InvalidPart"
    complete((1, one), (2, two))
    assert s3.head_object(Bucket=bucket, Key="m")["ContentLength"] == five + 4
    gone = s3.create_multipart_upload(Bucket=bucket, Key="gone")["UploadId"]
    s3.abort_multipart_upload(Bucket=bucket, Key="gone", UploadId=gone)
    assert yard.error_of(s3.upload_part, Bucket=bucket, Key="gone", UploadId=gone, PartNumber=1, Body=b"x")[0] == \
        "NoSuchUpload"


def test_ranges(s3, bucket):
    s3.put_object(Bucket=bucket, Key="r", Body=b"0123456789")

    def ranged(text):
        answer = s3.get_object(Bucket=bucket, Key="r", Range=text)
        return answer["ResponseMetadata"]["HTTPStatusCode"], answer["ContentRange"], answer["Body"].read()

    assert ranged("bytes=2-4") == (206, "bytes 2-4/10", b"234")
    assert ranged("bytes=7-") == (206, "bytes 7-9/10", b"789")
    assert ranged("bytes=-3") == (206, "bytes 7-9/10", b"789")
    assert ranged("bytes=8-99") == (206, "bytes 8-9/10", b"89")
    code, _, status = yard.error_of(s3.get_object, Bucket=bucket, Key="r", Range="bytes=10-")
    assert (code, status) == ("InvalidRange", 416)


def test_conditions(s3, bucket):
    tag = s3.put_object(Bucket=bucket, Key="c", Body=b"1")["ETag"]
    assert s3.get_object(Bucket=bucket, Key="c", IfMatch=tag)["Body"].read() == b"1"
    s3.put_object(Bucket=bucket, Key="c", Body=b"2")
    code, _, status = yard.error_of(s3.get_object, Bucket=bucket, Key="c", IfMatch=tag, Range="bytes=0-0")
    assert (code, status) == ("PreconditionFailed", 412)
    new = s3.head_object(Bucket=bucket, Key="c")["ETag"]
    assert yard.error_of(s3.get_object, Bucket=bucket, Key="c", IfNoneMatch=new)[2] == 304
    assert yard.error_of(s3.put_object, Bucket=bucket, Key="c", Body=b"3", IfNoneMatch="*")[2] == 412


@pytest.mark.parametrize("version", [None, "s3v4"], ids=["as-boto3-does", "v4"])
def test_presigned_urls(bucket, version):
    """boto3 makes URLs of the older signature in us-east-1 unless it is told otherwise."""
    s3 = boto3.session.Session().client("s3", config=Config(signature_version=version))
    key = {"Bucket": bucket, "Key": "p q/ü+"}
    put = s3.generate_presigned_url("put_object", {**key, "ContentType": "text/plain"})
    assert ("X-Amz-Signature" in put) == (version == "s3v4")
    assert fetch(put, b"by url", "PUT", {"Content-Type": "text/plain"})[0] == 200
    assert fetch(put, b"by url", "PUT", {"Content-Type": "text/html"})[0] == 403
    get = s3.generate_presigned_url("get_object", {**key, "ResponseContentType": "image/png"}, ExpiresIn=60)
    assert fetch(get) == (200, b"by url")
    assert fetch(get.replace("image", "text"))[0] == 403
    assert fetch(get, method="DELETE")[0] == 403
    short = s3.generate_presigned_url("get_object", key, ExpiresIn=1)
    time.sleep(2.1)
    status, body = fetch(short)
    assert status == 403 and b"<Code>AccessDenied</Code>" in body and b"expired" in body


@pytest.mark.parametrize("algorithm, digest", [
    ("CRC32", lambda data: zlib.crc32(data).to_bytes(4, "big")),
    ("SHA1", lambda data: hashlib.sha1(data).digest()),
    ("SHA256", lambda data: hashlib.sha256(data).digest()),
])
def test_checksums_are_verified(s3, bucket, algorithm, digest):
    data = b"some data"
    member = f"Checksum{algorithm}"
    right = base64.b64encode(digest(data)).decode()
    s3.put_object(Bucket=bucket, Key="sum", Body=data, ChecksumAlgorithm=algorithm)
    s3.put_object(Bucket=bucket, Key="sum", Body=data, **{member: right})
    got = s3.get_object(Bucket=bucket, Key="sum", ChecksumMode="ENABLED")
    assert got.get(member, right) == right and got["Body"].read() == data
    wrong = base64.b64encode(digest(b"other data")).decode()
    code, _, status = yard.error_of(s3.put_object, Bucket=bucket, Key="never", Body=data, **{member: wrong})
    assert (code, status) == ("BadDigest", 400)
    assert yard.error_of(s3.head_object, Bucket=bucket, Key="never")[0] == "404"


def test_content_md5(s3, bucket):
    s3.put_object(Bucket=bucket, Key="md5", Body=b"x", ContentMD5=base64.b64encode(hashlib.md5(b"x").digest()).decode())
    code, _, _ = yard.error_of(s3.put_object, Bucket=bucket, Key="md5", Body=b"x",
                               ContentMD5=base64.b64encode(hashlib.md5(b"y").digest()).decode())
    assert code == "BadDigest"


def test_a_body_that_is_not_the_signed_one_is_refused(s3, bucket):
    def swap(request):
        request.data = b"evil body"

    answer = wire.send("PUT", f"/{bucket}/k", b"good body", tamper=swap)
    assert answer.status_code == 400 and b"XAmzContentSHA256Mismatch" in answer.content
    assert yard.error_of(s3.head_object, Bucket=bucket, Key="k")[0] == "404"


def test_listing_with_delimiter_prefix_and_pages(s3, bucket):
    for key in ("a/1", "a/2", "b/1", "c", "d"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    found = s3.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [item["Key"] for item in found["Contents"]] == ["c", "d"]
    assert [item["Prefix"] for item in found["CommonPrefixes"]] == ["a/", "b/"]
    assert found["KeyCount"] == 4 and not found["IsTruncated"]
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2}))
    assert [item["Key"] for page in pages for item in page["Contents"]] == ["a/1", "a/2", "b/1", "c", "d"]
    assert len(pages) == 3 and pages[0]["NextContinuationToken"]
    assert [i["Key"] for i in s3.list_objects_v2(Bucket=bucket, StartAfter="b/1")["Contents"]] == ["c", "d"]
    old = list(s3.get_paginator("list_objects").paginate(
        Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": 1}))
    assert [p["Prefix"] for page in old for p in page.get("CommonPrefixes", [])] == ["a/", "b/"]
    assert [i["Key"] for page in old for i in page.get("Contents", [])] == ["c", "d"]
    assert s3.list_objects_v2(Bucket=bucket, Prefix="zzz")["KeyCount"] == 0
    item = s3.list_objects(Bucket=bucket, Prefix="c")["Contents"][0]
    assert item["Size"] == 1 and item["StorageClass"] == "STANDARD" and item["ETag"].startswith('"')
    bucket_resource = boto3.session.Session().resource("s3").Bucket(bucket)
    assert [o.key for o in bucket_resource.objects.filter(Prefix="a/")] == ["a/1", "a/2"]
    assert bucket_resource.creation_date is not None


def test_odd_keys(s3, bucket):
    for key in ODD_KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in ODD_KEYS:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode(), key
        s3.copy_object(Bucket=bucket, Key="copy of " + key, CopySource={"Bucket": bucket, "Key": key})
        assert s3.get_object(Bucket=bucket, Key="copy of " + key)["Body"].read() == key.encode(), key
    expected = sorted(ODD_KEYS, key=str.encode)
    for call in ("list_objects_v2", "list_objects"):
        pages = s3.get_paginator(call).paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
        found = [item["Key"] for page in pages for item in page["Contents"]]
        assert [key for key in found if not key.startswith("copy of ")] == expected, call
    s3.put_object(Bucket=bucket, Key="k" * 1024, Body=b"")
    assert yard.error_of(s3.put_object, Bucket=bucket, Key="k" * 1025, Body=b"")[0] == "KeyTooLongError"


def test_delete_many(s3, bucket):
    for key in ("x", "y & z", "ü"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in ("x", "y & z", "ü", "absent")]})
    assert {item["Key"] for item in answer["Deleted"]} == {"x", "y & z", "ü", "absent"} and "Errors" not in answer
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "x"}], "Quiet": True})
    assert "Deleted" not in quiet
    assert yard.keys("", bucket) == []


def test_copy_with_and_without_metadata(s3, bucket):
    s3.put_object(Bucket=bucket, Key="from", Body=b"data", Metadata={"a": "1"}, ContentType="x/y")
    s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/from")
    assert s3.head_object(Bucket=bucket, Key="to")["Metadata"] == {"a": "1"}
    s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/from", MetadataDirective="REPLACE",
                   Metadata={"b": "2"})
    assert s3.head_object(Bucket=bucket, Key="to")["Metadata"] == {"b": "2"}
    s3.copy({"Bucket": bucket, "Key": "from"}, bucket, "managed")
    assert s3.get_object(Bucket=bucket, Key="managed")["Body"].read() == b"data"
    assert yard.error_of(s3.copy_object, Bucket=bucket, Key="n", CopySource=f"{bucket}/absent")[0] == "NoSuchKey"


def test_upload_fileobj_with_extra_arguments(s3, bucket):
    s3.upload_fileobj(io.BytesIO(b"stream"), bucket, "f", ExtraArgs={
        "ContentType": "application/json", "Metadata": {"k": "v"}, "ACL": "bucket-owner-full-control",
        "Tagging": "a=1&b=2"})
    head = s3.head_object(Bucket=bucket, Key="f")
    assert head["ContentType"] == "application/json" and head["Metadata"] == {"k": "v"}
    tags = s3.get_object_tagging(Bucket=bucket, Key="f")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"a": "1", "b": "2"}


def test_buckets(s3):
    name = yard.fresh("buck.et")
    s3.create_bucket(Bucket=name)
    s3.create_bucket(Bucket=name)  # us-east-1: the own bucket again is no error
    assert name in [item["Name"] for item in s3.list_buckets()["Buckets"]]
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] is None
    west = yard.client("s3", "us-west-2")
    other = yard.fresh("west")
    west.create_bucket(Bucket=other, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    assert west.get_bucket_location(Bucket=other)["LocationConstraint"] == "us-west-2"
    assert west.head_bucket(Bucket=other)["BucketRegion"] == "us-west-2"
    code, _, status = yard.error_of(west.create_bucket, Bucket=other,
                                    CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    assert (code, status) == ("BucketAlreadyOwnedByYou", 409)
    s3.put_object(Bucket=name, Key="k", Body=b"")
    code, _, status = yard.error_of(s3.delete_bucket, Bucket=name)
    assert (code, status) == ("BucketNotEmpty", 409)
    s3.delete_object(Bucket=name, Key="k")
    for each in (name, other):
        s3.delete_bucket(Bucket=each)
    assert yard.error_of(s3.head_bucket, Bucket=name)[:2] == ("404", "Not Found")
    assert yard.error_of(yard.unchecked("s3").create_bucket, Bucket="Bad_Name")[0] == "InvalidBucketName"


def test_what_is_not_there(s3, bucket):
    assert yard.error_of(s3.get_object, Bucket="no-such-bucket-here", Key="k")[::2] == ("NoSuchBucket", 404)
    assert yard.error_of(s3.put_object, Bucket="no-such-bucket-here", Key="k", Body=b"x")[::2] == ("NoSuchBucket", 404)
    assert yard.error_of(s3.list_objects_v2, Bucket="no-such-bucket-here")[::2] == ("NoSuchBucket", 404)
    assert yard.error_of(s3.get_object, Bucket=bucket, Key="k")[::2] == ("NoSuchKey", 404)
    assert yard.error_of(s3.head_object, Bucket=bucket, Key="k") == ("404", "Not Found", 404)
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket=bucket, Key="absent & gone")
    answer = caught.value.response
    assert answer["Error"]["Key"] == "absent & gone"
    assert answer["ResponseMetadata"]["RequestId"] and answer["ResponseMetadata"]["HostId"]


def test_a_large_put_into_no_bucket_is_refused_before_the_body(s3):
    begin = time.monotonic()
    code, _, _ = yard.error_of(s3.put_object, Bucket="no-such-bucket-here", Key="k", Body=b"x" * (30 << 20))
    assert code == "NoSuchBucket"
    assert time.monotonic() - begin < 3


def test_wrong_keys(bucket):
    def client(key, secret):
        return boto3.session.Session().client("s3", aws_access_key_id=key, aws_secret_access_key=secret,
                                              config=Config(retries={"max_attempts": 0}))

    right = os.environ["AWS_ACCESS_KEY_ID"]
    assert yard.error_of(client("AKIDNOBODYKNOWSTHIS0", "x").list_buckets)[::2] == ("InvalidAccessKeyId", 403)
    assert yard.error_of(client(right, "wrong").list_buckets)[::2] == ("SignatureDoesNotMatch", 403)
    assert yard.error_of(client(right, "wrong").head_bucket, Bucket=bucket) == ("403", "Forbidden", 403)
    assert wire.send("GET", f"/{bucket}", signed=False).status_code == 403


def test_the_https_name_of_aws_is_answered_here(bucket):
    """Through the proxy, with the private certificate authority, as aws-chunked with a trailer."""
    session = boto3.session.Session()
    s3 = session.client("s3", endpoint_url="https://s3.us-east-1.amazonaws.com", config=Config(
        s3={"addressing_style": "path"}, retries={"max_attempts": 0}))
    seen = []
    s3.meta.events.register("before-send.s3.PutObject", lambda request, **_: seen.append(dict(request.headers.items())))
    s3.put_object(Bucket=bucket, Key="tls", Body=io.BytesIO(b"x" * 300_000), ContentEncoding="x-mine")
    assert "aws-chunked" in str(seen[0].get("Content-Encoding"))
    plain = yard.client("s3").get_object(Bucket=bucket, Key="tls")
    assert plain["Body"].read() == b"x" * 300_000
    assert plain["ContentEncoding"] == "x-mine"
    virtual = session.client("s3", endpoint_url="https://s3.us-east-1.amazonaws.com",
                             config=Config(s3={"addressing_style": "virtual"}, retries={"max_attempts": 0}))
    assert virtual.get_object(Bucket=bucket, Key="tls")["ContentLength"] == 300_000
