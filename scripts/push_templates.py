"""Adds response templates to many repos of the Hub; `response-templates push` is the same.

    python scripts/push_templates.py --dry-run --author some-author
    python scripts/push_templates.py --file repos.txt --report report.json
    python scripts/push_templates.py --registry qwen3 --jobs 8

Each repo gets one pull request (or a commit, with --commit) if its template passes the check on this very repo; the
others are told with the reason. A run that was stopped or killed goes on with the same command. See docs/hub.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from response_templates.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "push")
    main()
