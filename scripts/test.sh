#!/usr/bin/env bash
# Every test: those that need neither a JVM nor Airflow's database, then the others, each lane in two processes.
# Arguments go to pytest, both times. The status is that of the first lane that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly INTERRUPTED=2 NO_TESTS=5
status=$NO_TESTS
for lane in "not spark and not airflow" "spark or airflow"; do
  code=0
  .venv/bin/python -m pytest -m "$lane" "$@" || code=$?
  # Of tests that are named by hand a lane may have none.
  case $status in
    0) [ $code = $NO_TESTS ] || status=$code ;;
    "$NO_TESTS") status=$code ;;
  esac
  if [ $code = $INTERRUPTED ]; then break; fi
done
exit $status
