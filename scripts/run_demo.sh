#!/usr/bin/env bash
# Runs the demo on a fresh machine that has only Python 3.10 or newer, with venv. Arguments go to scripts/demo.py:
#
#     bash scripts/run_demo.sh --question "What is 12 plus 30?"
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare demo
in_venv "$root/scripts/demo.py" "$@"
