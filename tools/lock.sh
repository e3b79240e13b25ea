#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes requirements/*.txt from the ranges in pyproject.toml: every package pinned to one version, indirect dependencies
# included, for every Python from 3.10 on (markers choose). Run it to move to newer versions.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "tools/lock.sh needs uv: pip install uv" >&2; exit 3; }

lock() { # output, then what to resolve
  local output=$1
  shift
  UV_CUSTOM_COMPILE_COMMAND=tools/lock.sh UV_PYTHON_DOWNLOADS=never \
    uv pip compile --quiet --universal --python-version 3.10 --upgrade --no-emit-index-url --no-emit-find-links \
    --output-file "$output" "$@"
}
lock requirements/run.txt pyproject.toml
lock requirements/build.txt --group build
lock requirements/test.txt --group test --constraint requirements/run.txt --constraint requirements/build.txt
lock requirements/deep.txt --group deep --constraint requirements/test.txt --constraint requirements/run.txt
