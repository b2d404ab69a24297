#!/usr/bin/env bash
# Runs the test suite on a fresh machine that has only Python 3.10 or newer, with venv. Arguments go to pytest:
#
#     bash scripts/run_tests.sh tests/test_parser.py -x
#     bash scripts/run_tests.sh -m slow               # what takes minutes; left out otherwise
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare test
cd "$root"
# Real chat templates, tokenizers and outputs of models, kept in the user's cache and never in this repository.
# Without them the tests that need them are skipped (and fail in CI).
in_venv scripts/fetch_materials.py || echo "Not all test material could be fetched; see above." >&2
in_venv -m pytest -n auto -m "not slow" "$@"
