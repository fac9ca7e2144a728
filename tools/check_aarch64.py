"""Cross-compile pdl for 64-bit ARM and run its op and kernel tests there, under QEMU.

    apt-get install g++-aarch64-linux-gnu qemu-user                 # what this machine needs
    python tools/check_aarch64.py --sysroot FOLDER --prepare        # once: a Python for ARM, from Debian and PyPI
    python tools/check_aarch64.py --sysroot FOLDER                  # build, then test
    python tools/check_aarch64.py --sysroot FOLDER -- -k conv2d     # with arguments for pytest

FOLDER (default: $PDL_AARCH64, then ~/.cache/pdl/aarch64) is outside the tree; so is everything fetched. Only --prepare
uses the network. The build lies in build/aarch64.

Exit codes: 0 good, 1 the build or a test failed, 2 usage, 77 skipped because a tool or the sysroot is missing (the line
says which).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/aarch64"
SKIPPED = 77
TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64")
VERSION = "3.11"  # that of Debian 12, whose packages are unpacked
DEBIAN = (f"python{VERSION}-minimal", f"libpython{VERSION}-dev", "libstdc++6")
WHEELS = ("numpy", "scipy", "ml_dtypes", "safetensors", "pytest", "hypothesis")
# Left out: tests that start other Python processes (QEMU cannot follow an exec).
SELECTION = ("-k", "not isa and not environment and not openmp and not forked and not refused")


def python_of(sysroot: Path) -> Path:
    """The wrapper that runs the ARM Python."""
    return sysroot / "python"


def prepare(sysroot: Path) -> None:
    """Unpack Debian's ARM Python and the wheels under `sysroot`; apt's state is one of its own, not the machine's."""
    state, root = sysroot / "apt", sysroot / "root"
    for folder in (root, state / "lists/partial", state / "archives/partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {"APT::Architecture": "arm64", "APT::Architectures": "arm64", "Dir::State": state,
               "Dir::State::status": state / "status", "Dir::Cache": state}  # fmt: skip
    apt = ["apt-get", "-q", *(f"-o{key}={value}" for key, value in options.items())]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "-y", "--download-only", "--no-install-recommends", *DEBIAN], check=True)
    for package in sorted((state / "archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    platforms = [f"--platform=manylinux_2_{glibc}_aarch64" for glibc in (17, 28)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", sysroot / "site", *platforms,
         f"--python-version={VERSION}", "--implementation=cp", "--only-binary=:all:", *WHEELS], check=True)  # fmt: skip
    wrapper = python_of(sysroot)
    wrapper.write_text(
        f'#!/bin/sh\nPYTHONHOME="{root}/usr" PYTHONPATH="{sysroot}/site:$PYTHONPATH" exec qemu-aarch64 -L "{root}"'
        f' "{root}/usr/bin/python{VERSION}" "$@"\n'
    )
    wrapper.chmod(0o755)


def missing(sysroot: Path) -> str | None:
    """What keeps the check from running, or None."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            return f"{tool} is not installed (apt-get install g++-aarch64-linux-gnu qemu-user)"
    if not python_of(sysroot).exists():
        return f"no Python for ARM in {sysroot} (python tools/check_aarch64.py --sysroot {sysroot} --prepare)"
    return None


def build(sysroot: Path) -> Path:
    """Compile with every warning an error and install beside the build; the folder to put on the path is returned."""
    env_bin = Path(sys.executable).parent
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    if not (BUILD / "build.ninja").exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        local = BUILD / "local.ini"
        # pyconfig.h lies outside Python's own folder of headers
        headers = f"['-march=armv8-a', '-idirafter', '{sysroot}/root/usr/include']"
        local.write_text(
            f"[binaries]\npython = '{python_of(sysroot)}'\ncython = '{env_bin / 'cython'}'\n"
            f"[built-in options]\nc_args = {headers}\ncpp_args = {headers}\n"
        )
        cross = ["--cross-file", ROOT / "tools/cross/aarch64.ini", "--cross-file", local]
        subprocess.run([*meson, "setup", BUILD, ROOT, "-Dwerror=true", *cross], check=True)
    ninja = env_bin / "ninja"
    subprocess.run([ninja if ninja.exists() else "ninja", "-C", BUILD], check=True)
    stage = BUILD / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    subprocess.run([*meson, "install", "-C", BUILD, "--quiet", "--no-rebuild", "--destdir", stage], check=True)
    return next(stage.rglob("pdl/__init__.py")).parents[1]


def test(sysroot: Path, package: Path, arguments: list[str]) -> int:
    """Run the tests on the ARM build."""
    env = os.environ | {"PYTHONPATH": str(package), "PDL_CPU": "generic", "OPENBLAS_NUM_THREADS": "1"}
    say = "import platform; from pdl.kernels import runtime; print(platform.machine(), runtime.isa(), flush=True)"
    subprocess.run([python_of(sysroot), "-c", say], env=env, check=True)
    command = [python_of(sysroot), "-m", "pytest", "-q", "-p", "no:cacheprovider", *SELECTION]
    command += arguments or ["tests/framework/ops", "tests/framework/kernels"]
    return subprocess.run(command, env=env, cwd=ROOT, check=False).returncode


def main() -> int:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("PDL_AARCH64") or Path.home() / ".cache/pdl/aarch64"
    parser.add_argument("--sysroot", type=Path, default=default, help="where the ARM Python lies")
    parser.add_argument("--prepare", action="store_true", help="fetch the ARM Python (network)")
    parser.add_argument("arguments", nargs="*", help="for pytest, after --")
    args = parser.parse_args()
    sysroot = Path(args.sysroot).resolve()
    if args.prepare:
        prepare(sysroot)
        return 0
    if reason := missing(sysroot):
        print(f"skipped: {reason}")
        return SKIPPED
    try:
        package = build(sysroot)
    except subprocess.CalledProcessError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    return 1 if test(sysroot, package, args.arguments) else 0


if __name__ == "__main__":
    sys.exit(main())
