#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A whole training job with nothing but the AWS command line. Fails when the fitted line is not the one drawn.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
: "${AWS_ENDPOINT_URL:?not set; run: eval \"\$(trainyard env)\"}"
PATH=$root/.venv/v2/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job=line-$(date +%Y-%m-%d-%H-%M-%S)-$$
bucket=example-cli-$$

account=$(aws sts get-caller-identity --query Account --output text)
aws s3 mb "s3://$bucket"
mkdir -p "$work/data/train"
# 500 points of y = 3x + 2, in five files.
awk -v out="$work/data/train" 'BEGIN {
    srand(1)
    for (i = 0; i < 500; i++) {
        x = 2 * rand() - 1
        printf "%.5f,%.5f\n", x, 3 * x + 2 + 0.1 * (rand() - 0.5) > out "/part-" i % 5 ".csv"
    }
}'
aws s3 sync --only-show-errors "$work/data" "s3://$bucket/data"
aws s3 cp --only-show-errors "$here/train.sh" "s3://$bucket/code/train.sh"
aws s3 ls --recursive "s3://$bucket"
[[ $(aws s3 ls "s3://$bucket/data/train/" | wc -l) == 5 ]]

cat >"$work/job.json" <<JSON
{
  "TrainingJobName": "$job",
  "AlgorithmSpecification": {
    "TrainingImage": "trainyard/host",
    "TrainingInputMode": "File",
    "ContainerEntrypoint": ["/bin/sh", "/opt/ml/input/data/code/train.sh"],
    "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9\\\\.]+)"}]
  },
  "RoleArn": "arn:aws:iam::$account:role/TrainyardExecutionRole",
  "HyperParameters": {"epochs": "200"},
  "InputDataConfig": [
    {"ChannelName": "train", "DataSource": {"S3DataSource": {
      "S3DataType": "S3Prefix", "S3Uri": "s3://$bucket/data/train/", "S3DataDistributionType": "FullyReplicated"}}},
    {"ChannelName": "code", "DataSource": {"S3DataSource": {
      "S3DataType": "S3Prefix", "S3Uri": "s3://$bucket/code/", "S3DataDistributionType": "FullyReplicated"}}}
  ],
  "OutputDataConfig": {"S3OutputPath": "s3://$bucket/output"},
  "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
  "StoppingCondition": {"MaxRuntimeInSeconds": 300}
}
JSON
aws sagemaker create-training-job --cli-input-json "file://$work/job.json" --query TrainingJobArn --output text

# `aws sagemaker wait` asks once in two minutes; this asks more often.
for _ in $(seq 60); do
    status=$(aws sagemaker describe-training-job --training-job-name "$job" --query TrainingJobStatus --output text)
    [[ $status == InProgress ]] || break
    sleep 1
done
echo "status $status"
if [[ $status != Completed ]]; then
    aws sagemaker describe-training-job --training-job-name "$job" --query FailureReason --output text >&2
    exit 1
fi

stream=$(aws logs describe-log-streams --log-group-name /aws/sagemaker/TrainingJobs --log-stream-name-prefix "$job/" \
    --query 'logStreams[0].logStreamName' --output text)
aws logs get-log-events --log-group-name /aws/sagemaker/TrainingJobs --log-stream-name "$stream" --start-from-head \
    --query 'events[].message' --output text | tr '\t' '\n' | tee "$work/log"
grep -q 'epoch=200 loss=' "$work/log"

loss=$(aws cloudwatch get-metric-statistics --namespace /aws/sagemaker/TrainingJobs --metric-name loss \
    --dimensions "Name=TrainingJobName,Value=$job" --statistics Minimum --period 60 \
    --start-time "$(date -u -d '-10 minutes' +%FT%TZ)" --end-time "$(date -u -d '+2 minutes' +%FT%TZ)" \
    --query 'min(Datapoints[].Minimum)' --output text)
echo "least loss $loss"
awk -v loss="$loss" 'BEGIN { exit !(loss > 0 && loss < 0.01) }'

artefact=$(aws sagemaker describe-training-job --training-job-name "$job" \
    --query ModelArtifacts.S3ModelArtifacts --output text)
aws s3 cp --only-show-errors "$artefact" "$work/model.tar.gz"
tar -xzf "$work/model.tar.gz" -C "$work"
echo "model: $(cat "$work/line.txt")"
awk -F'[= ]' '{ exit !($2 > 2.95 && $2 < 3.05 && $4 > 1.95 && $4 < 2.05) }' "$work/line.txt"

aws s3 rm --recursive --only-show-errors "s3://$bucket"
aws s3 rb "s3://$bucket"
