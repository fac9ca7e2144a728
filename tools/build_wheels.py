"""Build the wheels of pdl-core and of every suite, and collect what they need, so that others install them offline.

    python tools/build_wheels.py                  # into dist/: our wheels, and those of all that they depend on
    pip install --no-index --find-links dist "pdl-cv[train]"

Suites are the folders suites/*/ with a pyproject.toml. Every wheel is built by its own backend in an environment of its
own, which pip fills from the user's package index; --no-isolation builds with what is installed here. What the wheels
depend on (extras of pdl-core included) is fetched by pip, too, for this Python and this kind of machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]

ALL_SETS = "setup-args=-Dinstruction_sets=all"


@dataclass(frozen=True)
class Built:
    """A wheel in the folder: of this repository, or of somebody else's project."""

    file: str
    bytes: int
    sha256: str
    ours: bool


def sources() -> dict[str, Path]:
    """The folders that wheels are built of, by the name behind `pdl-`: core first, then the suites."""
    return {"core": ROOT} | {file.parent.name: file.parent for file in sorted(ROOT.glob("suites/*/pyproject.toml"))}


def build(out: Path, folders: Sequence[Path], *, isolated: bool = True, settings: Sequence[str] = ()) -> list[Path]:
    """A wheel of each folder into `out`, in that order; `settings` go to the backend of pdl-core (-Csetup-args=...).

    What an interrupted or failed build leaves stays outside of `out`.
    """
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for number, folder in enumerate(folders, 1):
        kernels = "; its kernels are compiled, which takes minutes" if folder == ROOT else ""
        say(f"[{number}/{len(folders)}] building the wheel of {folder.name if folder != ROOT else 'pdl-core'}{kernels}")
        began = time.monotonic()
        extra = [f"--config-settings={each}" for each in settings] if folder == ROOT else []
        extra += [] if isolated else ["--no-build-isolation"]
        with TemporaryDirectory(dir=out) as draft:
            _pip("wheel", "--no-deps", "--wheel-dir", draft, *extra, str(folder))
            (wheel,) = Path(draft).glob("*.whl")
            for older in out.glob(f"{project(wheel)}-*.whl"):
                older.unlink()
            made.append(wheel.replace(out / wheel.name))
        say(f"      {made[-1].name}, {time.monotonic() - began:.0f} s")
    return made


def say(line: str) -> None:
    """What is being done, at once, on standard error."""
    print(line, file=sys.stderr, flush=True)


def collect(out: Path, wheels: Sequence[Path], extras: str) -> None:
    """Wheels of everything that ours depend on, directly or not, with these `extras` of pdl-core and of the suites.
    pdl-core itself is the one in the folder.
    """
    core = next(iter(out.glob("pdl_core-*.whl")), None)
    if core is None:
        raise SystemExit(f"{out} holds no wheel of pdl-core, which the suites need; add --only core")
    suites = [f"{wheel}[{extras}]" if extras else str(wheel) for wheel in wheels if wheel != core]
    say(f"fetching what they need ({extras or 'no extras'}) into {out}")
    _pip("wheel", "--wheel-dir", str(out), f"{core}[{extras}]" if extras else str(core), *suites)


def listing(out: Path) -> list[Built]:
    """All wheels of the folder, ours first."""
    ours = {f"pdl_{name}" for name in sources()}
    found = [
        Built(file.name, file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest(), project(file) in ours)
        for file in sorted(out.glob("*.whl"))
    ]
    return sorted(found, key=lambda each: not each.ours)


def project(wheel: Path) -> str:
    """`pdl_cv`, of pdl_cv-0.1.0-py3-none-any.whl."""
    return wheel.name.partition("-")[0]


def _pip(*arguments: str) -> None:
    """The pip of this Python, with the user's own configuration; its output goes to standard error."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    env = dict(os.environ)
    if "--no-build-isolation" in arguments:
        env.pop("PIP_BUILD_CONSTRAINT", None)  # pip refuses the two together
    done = subprocess.run(command, env=env, stdout=sys.stderr, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")


def main() -> None:
    """Build, collect, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the folder (default: dist)")
    parser.add_argument("--no-deps", action="store_true", help="our own wheels only")
    parser.add_argument("--no-isolation", action="store_true", help="build with the packages of this environment")
    parser.add_argument("--extras", default="train", help="extras to collect, by comma (default: train)")
    parser.add_argument("--only", action="append", help="a suite (cv), or core; may be repeated")
    parser.add_argument("-C", dest="settings", action="append", metavar="KEY=VALUE",
                        help=f"for the build of pdl-core (default: {ALL_SETS}, for other machines)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    known = sources()
    unknown = [name for name in args.only or () if name not in known]
    if unknown:
        raise SystemExit(f"--only {unknown[0]}: choose of {', '.join(known)}")
    chosen = [each for name, each in known.items() if not args.only or name in args.only]
    out = args.out.resolve()
    wheels = build(out, chosen, isolated=not args.no_isolation, settings=args.settings or [ALL_SETS])
    if not args.no_deps:
        collect(out, wheels, args.extras)
    found = listing(out)
    if args.json:
        print(json.dumps([asdict(each) for each in found]))
        return
    width = max(len(each.file) for each in found)
    for each in found:
        print(f"{each.file:<{width}}  {each.bytes / 1e6:8.2f} MB  {each.sha256}{'' if each.ours else '  (needed)'}")
    print(f"{len(found)} wheels, {sum(each.bytes for each in found) / 1e6:.1f} MB in {args.out}")
    names = [project(wheel).replace("_", "-") for wheel in wheels]
    wanted = " ".join(f"'{name}[train]'" for name in names if name != "pdl-core") or "'pdl-core[train]'"
    print(f"next:  pip install --no-index --find-links {args.out} {wanted}")


if __name__ == "__main__":
    main()
