"""Use the wheels, not the tree: build all, install into an empty environment, run there."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workspace import ROOT, members, root_pyproject


def main() -> None:
    """Build, install `terret` alone, run it, then add and import every other distribution."""
    with tempfile.TemporaryDirectory(prefix="terret-smoke-") as name:
        place = Path(name)
        wheels, python = place / "wheels", place / "env" / "bin" / "python"
        run(["uv", "build", "--quiet", "--all-packages", "--wheel", "-o", str(wheels)], cwd=ROOT)
        run(["uv", "venv", "--quiet", "--python", sys.executable, str(place / "env")], cwd=place)
        install(["terret"], python, wheels)
        use_terret(python, place)
        install([member.distribution for member in members()], python, wheels)
        run(
            [str(python), "-I", "-c", "; ".join(f"import {m.module}" for m in members())], cwd=place
        )
    print("wheels: ok")


def install(names: Sequence[str], python: Path, wheels: Path) -> None:
    """Install our wheels, and from the index what they need, as old as the workspace has it."""
    project = root_pyproject()
    version, newest = project["project"]["version"], project["tool"]["uv"]["exclude-newer"]
    # A local version of one of our names in `wheels` wins over the index; the pin keeps it exact.
    pinned = [f"{name}=={version}" for name in names]
    options = [
        "--quiet",
        "--python",
        str(python),
        "--find-links",
        str(wheels),
        "--exclude-newer",
        newest,
    ]
    run(["uv", "pip", "install", *options, *pinned], cwd=wheels)


def use_terret(python: Path, place: Path) -> None:
    """Run the installed command line."""
    terret = str(python.parent / "terret")
    run([terret, "--version"], cwd=place)
    run([terret, "plugin", "list"], cwd=place)


def run(command: Sequence[str], *, cwd: Path) -> None:
    """Run a command, shown before it starts; its failure ends the test."""
    print("$", " ".join(command).replace(str(cwd), "."), flush=True)
    subprocess.run(command, cwd=cwd, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
