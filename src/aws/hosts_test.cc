// SPDX-License-Identifier: Apache-2.0
#include "aws/aws.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::aws;

TEST_CASE("partition and DNS suffix follow from the region's name") {
    CHECK(partition_of("us-east-1") == "aws");
    CHECK(partition_of("cn-northwest-1") == "aws-cn");
    CHECK(partition_of("us-gov-west-1") == "aws-us-gov");
    CHECK(dns_suffix_of("cn-north-1") == "amazonaws.com.cn");
    CHECK(dns_suffix_of("eu-central-1") == "amazonaws.com");
    CHECK(dns_suffix_of("anything") == "amazonaws.com");
}

TEST_CASE("AWS's host names are recognised and others are not") {
    CHECK(is_aws_host("sts.us-east-1.amazonaws.com"));
    CHECK(is_aws_host("STS.us-east-1.AmazonAWS.com:443"));
    CHECK(is_aws_host("sts.cn-north-1.amazonaws.com.cn."));
    CHECK(is_aws_host("logs.us-east-1.api.aws"));
    CHECK_FALSE(is_aws_host("amazonaws.com.evil.org"));
    CHECK_FALSE(is_aws_host("notamazonaws.com"));
    CHECK_FALSE(is_aws_host("127.0.0.1:4545"));
    CHECK_FALSE(is_aws_host("[::1]:4545"));
    CHECK_FALSE(is_aws_host(""));
}

TEST_CASE("service, region and bucket are read from host names") {
    struct Row {
        const char *host, *service, *region, *bucket;
    };
    const Row rows[] = {
        {"sts.us-east-1.amazonaws.com", "sts", "us-east-1", ""},
        {"sts.amazonaws.com", "sts", "", ""},
        {"iam.amazonaws.com", "iam", "", ""},
        {"iam.cn-north-1.amazonaws.com.cn", "iam", "cn-north-1", ""},
        {"api.sagemaker.us-east-1.amazonaws.com:443", "sagemaker", "us-east-1", ""},
        {"runtime.sagemaker.eu-west-1.amazonaws.com", "sagemaker", "eu-west-1", ""},
        {"logs.ap-southeast-2.amazonaws.com", "logs", "ap-southeast-2", ""},
        {"monitoring.us-gov-west-1.amazonaws.com", "monitoring", "us-gov-west-1", ""},
        {"sts-fips.us-east-1.amazonaws.com", "sts", "us-east-1", ""},
        {"123456789012.dkr.ecr.us-west-2.amazonaws.com", "ecr", "us-west-2", ""},
        {"api.ecr.us-west-2.amazonaws.com", "ecr", "us-west-2", ""},
        {"s3.amazonaws.com", "s3", "", ""},
        {"s3.us-east-1.amazonaws.com", "s3", "us-east-1", ""},
        {"bucket.s3.us-east-1.amazonaws.com", "s3", "us-east-1", "bucket"},
        {"my.dotted.bucket.s3.eu-west-1.amazonaws.com", "s3", "eu-west-1", "my.dotted.bucket"},
        {"bucket.s3.amazonaws.com", "s3", "", "bucket"},
        {"bucket.s3-eu-west-1.amazonaws.com", "s3", "eu-west-1", "bucket"},
        {"bucket.s3.dualstack.us-east-1.amazonaws.com", "s3", "us-east-1", "bucket"},
        {"bucket.s3.cn-north-1.amazonaws.com.cn", "s3", "cn-north-1", "bucket"},
        {"s3.data.s3.us-east-1.amazonaws.com", "s3", "us-east-1", "s3.data"},
        {"localhost", "", "", ""},
        {"amazonaws.com", "", "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.host);
        const HostParts parts = parse_aws_host(row.host);
        CHECK(parts.service == row.service);
        CHECK(parts.region == row.region);
        CHECK(parts.bucket == row.bucket);
    }
}

TEST_CASE("S3 URIs are parsed in the spellings people use") {
    CHECK(parse_s3_uri("s3://b/k/l").key == "k/l");
    CHECK(parse_s3_uri("S3://b/k").bucket == "b");
    CHECK(parse_s3_uri("s3://b").key.empty());
    CHECK(parse_s3_uri("s3://b/").key.empty());
    CHECK_THROWS_WITH_AS(parse_s3_uri("https://b/k"),
                         "\"https://b/k\" is not an S3 URI; write s3://bucket/key", Error);
    CHECK_THROWS_AS(parse_s3_uri("s3:///k"), Error);
    CHECK_THROWS_AS(parse_s3_uri(""), Error);
}
