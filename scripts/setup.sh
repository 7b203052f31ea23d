#!/usr/bin/env bash
# Makes .venv from requirements.lock, with both distributions of this project as editable installs. Does nothing when it
# is up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. scripts/tools.sh

VENV=.venv
STAMP=$VENV/.made-from

# What the environment was made from: its own recipe is part of that.
wanted() { cat requirements.lock pyproject.toml clinker_provider/pyproject.toml {spark_jobs,clinker_provider}/__init__.py scripts/{setup,tools}.sh | cksum; }

if [ -x "$VENV/bin/python" ] && [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(wanted)" ]; then exit 0; fi

UV=$(find_uv)
PYTHON=$(find_python)
rm -f "$STAMP"
if ! "$VENV/bin/python" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$PYTHON_VERSION')" 2>/dev/null; then
  say "Making $VENV …"
  # Without a Python of that version here, uv fetches one for itself.
  "$UV" venv -q --clear --python "${PYTHON:-$PYTHON_VERSION}" "$VENV"
fi
say "Installing the locked packages …"
"$UV" pip sync -q --compile-bytecode --python "$VENV/bin/python" --require-hashes requirements.lock
"$UV" pip install -q --python "$VENV/bin/python" --no-deps --editable . --editable clinker_provider
wanted > "$STAMP"
say "$VENV is ready."
