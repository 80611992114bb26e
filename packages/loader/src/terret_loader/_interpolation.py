"""`${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}`, `${scheme:...}` and `$$` in texts."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from terret_context import TerretError, did_you_mean

from ._nodes import Node, Report

Resolve: TypeAlias = Callable[[str, str, Path], object]
"""A further source: `(scheme, text, base)` gives text, or `None` if it does not know the scheme.
Failures are a `TerretError`."""

MAX_FILE_BYTES: Final = 1024 * 1024

_MARK: Final = re.compile(r"\$(?:\$|\{([^}]*)(\}?))")


def marks(text: str) -> list[str]:
    """Gives what stands between the braces of each `${...}` in a text."""
    return [mark[1] for mark in _MARK.finditer(text) if mark[1] is not None]


class Interpolated(str):
    """Text that came from outside the document. Its `repr` is its source, never its value."""

    source: str
    parts: tuple[str, ...]
    """The texts that came from outside, without what stands around them."""

    @classmethod
    def of(cls, value: str, source: str, parts: Iterable[str]) -> "Interpolated":
        text = cls(value)
        text.source = source
        text.parts = tuple(parts)
        return text

    def __repr__(self) -> str:
        return repr(self.source)


class Interpolation:
    """Evaluates the text values of nodes against an environment and the files beside them."""

    def __init__(self, env: Mapping[str, str], resolve: Resolve, report: Report) -> None:
        self.files: set[Path] = set()
        """The files that were read, or should have been."""
        self.is_used = False
        """Whether a text had something to evaluate."""
        self._env = env
        self._resolve = resolve
        self._report = report

    def plain(self, node: Node) -> object:
        """Gives the Python value of a node, with the keys as spelled; reports what is missing."""
        value = node.value
        if isinstance(value, str):
            return self._text(node, value) if "$" in value else value
        if isinstance(value, dict):
            return {item.name: self.plain(item) for item in value.values()}
        if isinstance(value, tuple):
            return [self.plain(item) for item in value]
        return value

    def _text(self, node: Node, text: str) -> str:
        self.is_used = True
        parts: list[str] = []

        def value(mark: re.Match[str]) -> str:
            if mark[1] is None:
                return "$"
            try:
                if not mark[2]:
                    raise _Unresolved('"${" without "}": write "$${" for the characters')
                parts.append(self._value(mark[1], node.source.folder))
            except _Unresolved as error:
                self._report(node.fault(str(error)))
                return ""
            return parts[-1]

        result = _MARK.sub(value, text)
        return Interpolated.of(result, text, parts) if parts else result

    def _value(self, inner: str, folder: Path) -> str:
        scheme, colon, rest = inner.partition(":")
        if not colon or rest.startswith("-"):
            raise _Unresolved(f'"${{{inner}}}" names no source: write "${{env:{inner}}}"')
        if scheme == "env":
            return self._variable(rest)
        if scheme == "file":
            return self._file(rest, folder)
        try:
            found = self._resolve(scheme, rest, folder)
        except TerretError as error:
            raise _Unresolved(str(error)) from error
        if not isinstance(found, str):
            near = did_you_mean(scheme, ("env", "file"))
            raise _Unresolved(f'unknown source "{scheme}" in "${{{inner}}}"{near}')
        return found

    def _variable(self, rest: str) -> str:
        name, has_default, default = rest.partition(":-")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise _Unresolved(f'"{name}" is not the name of an environment variable')
        value = self._env.get(name)
        if has_default:
            return value or default
        if value is None:
            near = did_you_mean(name, self._env)
            raise _Unresolved(f"environment variable {name} is not set{near}")
        return value

    def _file(self, name: str, folder: Path) -> str:
        path = Path(os.path.abspath(folder / name))
        self.files.add(path)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise _Unresolved(f"file {name} cannot be read: {error.strerror}") from error
        if len(data) > MAX_FILE_BYTES:
            raise _Unresolved(f"file {name} has more than {MAX_FILE_BYTES:,} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _Unresolved(f"file {name} is not UTF-8") from error
        return re.sub(r"\r?\n\Z", "", text)


class _Unresolved(Exception):
    pass
