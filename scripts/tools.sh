#!/usr/bin/env bash
# Sourced from the project's folder: finds Python and uv. uv is taken from the path, else put into .tools, so that
# nothing outside this folder changes.
set -euo pipefail

PYTHON_VERSION=3.11

say() { printf '%s\n' "$*" >&2; }

find_python() {
  local candidate
  for candidate in "python$PYTHON_VERSION" python3 python; do
    if command -v "$candidate" >/dev/null && [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$PYTHON_VERSION" ]; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

find_uv() {
  local python
  if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then command -v uv; return; fi
  if [ -x .tools/uv/bin/uv ]; then echo .tools/uv/bin/uv; return; fi
  python=$(find_python)
  [ -n "$python" ] || python=$(command -v python3 || true)
  if [ -z "$python" ]; then
    say "Neither uv nor Python is installed. Install Python $PYTHON_VERSION (Debian and Ubuntu: apt install python$PYTHON_VERSION python$PYTHON_VERSION-venv; macOS: brew install python@$PYTHON_VERSION)."
    return 1
  fi
  say "Fetching uv into .tools …"
  mkdir -p .tools
  if "$python" -m venv .tools/uv >/dev/null 2>&1 && .tools/uv/bin/python -m pip install -q uv >&2; then
    echo .tools/uv/bin/uv
  elif rm -rf .tools/uv && "$python" -m pip install -q --target .tools/uv uv >&2; then
    # A Debian Python without its venv package still has pip.
    echo .tools/uv/bin/uv
  else
    rm -rf .tools/uv
    say "uv cannot be fetched. Install it (pip install uv, brew install uv), or on Debian and Ubuntu: apt install python$PYTHON_VERSION-venv."
    return 1
  fi
}
