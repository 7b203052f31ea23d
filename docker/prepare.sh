#!/usr/bin/env bash
# What has to be done once before Airflow starts: its database, and a copy of the examples on the volume that Airflow
# and Spark see at the same path.
set -euo pipefail

airflow db migrate
mkdir -p /data/examples /data/work
# Inputs and pipelines are renewed; outputs of earlier runs stay.
cp -R /mnt/examples/. /data/examples/
