#!/usr/bin/env bash
# What has to be done once before Airflow starts: its database, a copy of the examples on the volume that Airflow and
# Spark see at the same path, a folder for Spark's event logs, and a bucket.
set -euo pipefail

airflow db migrate
mkdir -p /data/examples /data/work /data/events
# Inputs and pipelines are renewed; outputs of earlier runs stay.
cp -R /mnt/examples/. /data/examples/
# The store keeps objects in memory: after it has started anew it needs its bucket again.
curl --fail --silent --show-error --output /dev/null --request PUT "$AWS_ENDPOINT_URL_S3/clinker"
