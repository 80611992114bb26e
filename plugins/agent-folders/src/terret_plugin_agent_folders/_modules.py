"""Python files of a project, imported under private names."""

import hashlib
import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from terret_loader import Fault, Origin, Source


class ImportFaultError(Exception):
    """Carries the fault of a file that cannot be imported."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


class Modules:
    """Imports each file once, as a module of a package that is made of the agent's folder.

    So relative imports reach everything in that folder, equal names in two folders do not meet,
    and `sys.path` stays as it is.
    """

    def __init__(self) -> None:
        self._packages: set[str] = set()

    def load(self, file: Path, folder: Path) -> ModuleType:
        """Imports a file as a part of a folder, or of its own folder if it lies elsewhere.

        Raises `ImportFaultError`.
        """
        if not file.is_file():
            raise ImportFaultError(_fault(file, 0, 0, "there is no such file"))
        if not file.is_relative_to(folder):
            folder = file.parent
        parts = file.relative_to(folder).with_suffix("").parts
        importlib.invalidate_caches()
        try:
            return importlib.import_module(".".join((self._package(folder), *parts)))
        except Exception as error:
            raise ImportFaultError(_import_fault(file, folder, error)) from error

    def close(self) -> None:
        """Forgets what was imported."""
        for name in tuple(sys.modules):
            if name.partition(".")[0] in self._packages:
                del sys.modules[name]
        self._packages.clear()

    def _package(self, folder: Path) -> str:
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        name = f"_terret_agent_{digest}"
        if name not in self._packages:
            package = ModuleType(name, f"The files of {folder}.")
            package.__path__ = [str(folder)]
            sys.modules[name] = package
            self._packages.add(name)
        return name


def _import_fault(file: Path, folder: Path, error: Exception) -> Fault:
    text = " ".join(str(error).split())
    message = f"cannot be imported: {type(error).__name__}: {text}"
    if isinstance(error, SyntaxError) and error.filename is not None:
        message = f"cannot be imported: {type(error).__name__}: {error.msg}"
        return _fault(Path(error.filename), error.lineno or 0, error.offset or 1, message, error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    if not own:
        return _fault(file, 0, 0, message, error)
    return _fault(Path(own[-1].filename), own[-1].lineno or 0, 1, message, error)


def _fault(
    file: Path, line: int, column: int, message: str, error: Exception | None = None
) -> Fault:
    return Fault(origin=Origin(Source.of_file(file), line, column), message=message, error=error)
