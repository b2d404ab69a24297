"""Writes the fingerprints and the models of known chat templates into the registry's metadata files.

`tests/data/domains/NAME.json` says which chat templates of the material belong to a registry template; from it and from
the material (see `fetch_materials.py`) this script fills the keys `fingerprints` and `models` of each
`templates/NAME.meta.json`. All other keys are written by hand and left alone. A model that is listed for two templates
is left out of both.

    python scripts/make_fingerprints.py            # write
    python scripts/make_fingerprints.py --check    # exit code 1 if a file would change
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import materials  # noqa: E402
from domains import domains, owners  # noqa: E402
from response_templates.registry import fingerprint  # noqa: E402


def known() -> dict[str, dict[str, Any]]:
    """For each registry template: its fingerprints (with the name of one chat template each) and its models."""
    known = owners()
    prints: dict[str, dict[str, str]] = defaultdict(dict)
    models: dict[str, set[str]] = defaultdict(set)
    for chat_template in materials.chat_templates():
        owner = known.get(chat_template.id)
        if owner:
            prints[owner].setdefault(fingerprint(chat_template.text), chat_template.id)
            models[owner].update(name for name in (chat_template.repo, *chat_template.aliases) if name)
    twice = {name for owner in models for name in models[owner] if sum(name in m for m in models.values()) > 1}
    return {
        owner: {"fingerprints": dict(sorted(prints[owner].items())), "models": sorted(models[owner] - twice)}
        for owner in domains()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Fill fingerprints and models into the metadata files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if something would change")
    parser.add_argument("names", nargs="*", help="only these registry templates")
    arguments = parser.parse_args()
    check = arguments.check
    changed = []
    for name, keys in sorted(known().items()):
        if arguments.names and name not in arguments.names:
            continue
        path = ROOT / "templates" / f"{name}.meta.json"
        before = path.read_text(encoding="utf-8")
        after = json.dumps(json.loads(before) | keys, indent=2, ensure_ascii=False) + "\n"
        if before != after:
            changed.append(path.name)
            if not check:
                path.write_text(after, encoding="utf-8")
    print("\n".join(changed) or "nothing to change")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
