"""Build the native kernels inside the tree, for development: `python tools/build_inplace.py [--debug] [--isa ...]`.

Compiles what changed into build/inplace-* and links the modules into framework/pdl/kernels: for the baseline and the
best instruction set of this CPU; `--isa avx2` builds for one alone, `--isa all` as for wheels. May be run by several
people at once. Also writes the metadata of the framework and of every suite (entry points, version, requirements)
beside their packages, so that with these folders on PYTHONPATH they are found as if installed; `--metadata` writes
that alone.
"""

import argparse
import fcntl
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "framework/pdl/kernels"


def main() -> None:
    """Configure, compile, link into place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--debug", action="store_true", help="bounds checks on")
    parser.add_argument("--isa", help="instruction sets, by comma (default: native)")
    parser.add_argument("--metadata", action="store_true", help="write the metadata alone")
    args = parser.parse_args()
    write_metadata(ROOT / "pyproject.toml", ROOT / "framework")
    for suite in sorted(ROOT.glob("suites/*/pyproject.toml")):
        write_metadata(suite, suite.parent)
    if args.metadata:
        return
    kind = "debug" if args.debug else "release"
    sets = [f"-Dinstruction_sets={args.isa}"] if args.isa else []
    build = ROOT / "build" / "-".join(["inplace", kind, *(args.isa or "").split(",")]).rstrip("-")
    build.mkdir(parents=True, exist_ok=True)
    with (build.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        env_bin = Path(sys.executable).parent
        meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
        if not (build / "build.ninja").exists():
            python_file = build.parent / "python.ini"
            python_file.write_text(f"[binaries]\npython = '{sys.executable}'\ncython = '{env_bin / 'cython'}'\n")
            command = [*meson, "setup", build, ROOT, f"-Dbuildtype={kind}", *sets, "--native-file", python_file]
            subprocess.run(command, check=True, cwd=ROOT)
        ninja = env_bin / "ninja"
        subprocess.run([ninja if ninja.exists() else "ninja", "-C", build], check=True)
        for built in [*build.glob("*.cpython-*.so"), *build.glob("libpdl_kernels.so"), *build.rglob("kernels/*.so")]:
            link = KERNELS / built.name
            if not link.is_symlink() or link.resolve() != built.resolve():
                link.unlink(missing_ok=True)
                link.symlink_to(built)


def write_metadata(pyproject: Path, folder: Path) -> None:
    """NAME-VERSION.dist-info in `folder`: what `importlib.metadata` reads of a distribution."""
    project: dict[str, Any] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    for old in folder.glob("*.dist-info"):
        shutil.rmtree(old)
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    requires = [
        *project.get("dependencies", []),
        *(f"{each}; extra == '{extra}'" for extra, names in extras.items() for each in names),
    ]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [*(f"Requires-Dist: {each}" for each in requires), *(f"Provides-Extra: {extra}" for extra in extras)]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    groups = {**project.get("entry-points", {}), "console_scripts": project.get("scripts", {})}
    text = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items()) for group, each in groups.items() if each]
    (info / "entry_points.txt").write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
