"""Build the native kernels inside the tree, for development: `python tools/build_inplace.py [--debug] [--isa ...]`.

Compiles what changed into build/inplace-* and links the modules into framework/pdl/kernels. `--isa avx512` builds for
one instruction set, in a third of the time. May be run by several people at once.
"""

import argparse
import fcntl
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "framework/pdl/kernels"


def main() -> None:
    """Configure, compile, link into place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--debug", action="store_true", help="bounds checks on")
    parser.add_argument("--isa", help="instruction sets, by comma (default: all)")
    args = parser.parse_args()
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


if __name__ == "__main__":
    main()
