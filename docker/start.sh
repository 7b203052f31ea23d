#!/usr/bin/env bash
# How every process of the image starts: what it writes, other users do not read.
set -euo pipefail

umask 077
exec "$@"
