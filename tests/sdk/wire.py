# SPDX-License-Identifier: Apache-2.0
"""Requests below boto3: any method, path and body, signed as told. For what no client would send."""
import os

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session

import yard


def keys():
    """The owner's keys as `trainyard env` gave them."""
    return Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])


def send(method, path, body=b"", service="s3", headers=None, credentials=None, signed=True, tamper=None):
    """The raw answer. `tamper` may change the signed request before it leaves."""
    request = AWSRequest(method=method, url=os.environ["AWS_ENDPOINT_URL"] + path, data=body, headers=headers or {})
    if signed:
        signer = S3SigV4Auth if service == "s3" else SigV4Auth
        signer(credentials or keys(), service, yard.REGION).add_auth(request)
    if tamper:
        tamper(request)
    return URLLib3Session(timeout=20).send(request.prepare())
