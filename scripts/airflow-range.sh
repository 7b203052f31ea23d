#!/usr/bin/env bash
# The provider's tests on other versions of Airflow, each in an environment of its own: `scripts/airflow-range.sh 2.11.0 3.1.8`.
# Without arguments the oldest supported one. The environments are kept in .airflow-range/, so a second run installs nothing.
# Exit status 0: the tests passed with all of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/tools.sh

uv=$(find_uv)
[ $# -gt 0 ] || set -- 2.11.0
failed=()
for version in "$@"; do
  python=.airflow-range/$version/bin/python
  if [ ! -x "$python" ]; then
    "$uv" venv -q --python "$PYTHON_VERSION" ".airflow-range/$version"
  fi
  "$uv" pip install -q --python "$python" "apache-airflow==$version" -e '.[s3]' -e clinker_provider \
    flask flask-cors hypothesis jsonschema "moto[s3]>=5.2" "pytest>=8.4" "pytest-xdist>=3.8" "statsd>=4"
  say "Airflow $version"
  # Whole DAG runs and clusters are tried with the version in requirements.lock.
  "$python" -m pytest -q -n 0 -p no:cacheprovider -W ignore -m "not spark" tests/provider \
    --ignore tests/provider/test_dag_run.py --ignore tests/provider/test_deferral_on_a_cluster.py ||
    failed+=("$version")
done
[ ${#failed[@]} -eq 0 ] || { say "Tests failed with Airflow ${failed[*]}"; exit 1; }
