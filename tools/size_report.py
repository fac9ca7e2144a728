"""Installed size of a distribution with everything it requires: `python tools/size_report.py pdl-core`.

    python tools/size_report.py "pdl-core[train]" pdl-cv                   # in this environment
    /path/to/other/python tools/size_report.py torch --json                # in another one

Sizes are sums of the files each distribution installed, in MB (10^6 bytes). Requirements under markers that do not hold
are not counted.
"""

from __future__ import annotations

import argparse
import json
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path


def split(requirement: str) -> tuple[str, set[str]]:
    """Name and extras of a requirement such as ``pdl-core[train]>=0.1``."""
    found = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} is not a requirement")
    return found[1], {e.strip() for e in (found[2] or "").split(",") if e.strip()}


def wanted(requirement: str, extras: set[str]) -> bool:
    """Whether a requirement's marker asks for it here: those of an extra only if the extra was named."""
    marker = requirement.partition(";")[2]
    named = re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
    if named:
        return any(e in extras for e in named)
    return not marker or ("platform" not in marker and "python" not in marker and "sys_" not in marker)


def size(dist: Distribution) -> int:
    """Bytes of the files a distribution installed."""
    paths = [dist.locate_file(f) for f in dist.files or []]
    return sum(p.stat().st_size for p in map(_path, paths) if p.is_file())


def _path(where: object) -> Path:
    return Path(str(where))


def closure(requirements: list[str]) -> dict[str, int]:
    """Bytes of every installed distribution that the requirements lead to."""
    sizes: dict[str, int] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    pending = list(requirements)
    while pending:
        name, extras = split(pending.pop())
        key = (name.lower().replace("_", "-"), frozenset(extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            dist = distribution(name)
        except PackageNotFoundError:
            if name in {split(r)[0] for r in requirements}:
                raise SystemExit(f"{name} is not installed in this environment") from None
            continue
        sizes[key[0]] = size(dist)
        pending += [r for r in dist.requires or [] if wanted(r, extras)]
    return sizes


def main() -> None:
    """Print a table of sizes, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requirement", nargs="+")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sizes = closure(args.requirement)
    total = sum(sizes.values())
    if args.json:
        print(json.dumps({"total": total, "distributions": sizes}))
        return
    for name, count in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{name:28} {count / 1e6:9.1f} MB")
    print(f"{'total':28} {total / 1e6:9.1f} MB")


if __name__ == "__main__":
    main()
