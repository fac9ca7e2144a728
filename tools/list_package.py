"""Print the files that an installed pdl consists of, besides the native modules: `list_package.py framework`."""

import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
# .npz and .txt: data and its licence; .toml and .md: the template of a suite; .ld, .js and .mjs: of compiled models
KEPT = {".py", ".c", ".ld", ".yaml", ".html", ".css", ".js", ".mjs", ".json", ".typed", ".npz", ".txt", ".toml", ".md"}

for path in sorted((ROOT / "pdl").rglob("*")):
    if path.suffix in KEPT or path.name == "py.typed":
        print(path.relative_to(ROOT).as_posix())
