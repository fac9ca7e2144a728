"""Build the native kernels inside the tree, for development: `python tools/build_inplace.py [--debug]`.

Compiles what changed into build/inplace and links the modules into framework/pdl/kernels. May be run by several people
at once.
"""

import fcntl
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "framework/pdl/kernels"


def main() -> None:
    """Configure, compile, link into place."""
    kind = "debug" if "--debug" in sys.argv else "release"
    build = ROOT / "build" / f"inplace-{kind}"
    build.mkdir(parents=True, exist_ok=True)
    with (build.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        env_bin = Path(sys.executable).parent
        meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
        if not (build / "build.ninja").exists():
            python_file = build.parent / "python.ini"
            python_file.write_text(f"[binaries]\npython = '{sys.executable}'\ncython = '{env_bin / 'cython'}'\n")
            command = [*meson, "setup", build, ROOT, f"-Dbuildtype={kind}", "--native-file", python_file]
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
