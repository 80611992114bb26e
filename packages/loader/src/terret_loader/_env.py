"""Files of environment variables."""

import re
from pathlib import Path
from typing import Final

from ._faults import Fault, HarnessConfigError, Origin, Source

_LINE: Final = re.compile(
    r"""\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*
    (?:"((?:[^"\\]|\\.)*)"|'([^']*)'|((?:[^\s"'\#]|(?<==)\#)(?:(?!\s\#).)*?)?)\s*(?:\s\#.*)?""",
    re.VERBOSE,
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(path: str | Path) -> dict[str, str]:
    r"""Reads lines `NAME=value` of a `.env` file; a file that does not exist gives `{}`.

    Values may be bare, in single quotes (taken as they are) or in double quotes (`\n`, `\"`, `\\`).
    Empty lines, `# comments` and a leading `export` are skipped. Raises `HarnessConfigError` that
    names file and line of every malformed line, never its text.
    """
    path = Path(path)
    source = Source.of_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8" if isinstance(error, ValueError) else f"cannot be read: {error}"
        raise HarnessConfigError([Fault(origin=Origin(source), message=reason)]) from error
    faults: list[Fault] = []
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (match := _LINE.fullmatch(line)) is None:
            origin = Origin(source, number, 1)
            faults.append(Fault(origin=origin, message="malformed line (expected NAME=value)"))
            continue
        name, double, single, bare = match.groups()
        if double is not None:
            bare = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), double)
        values[name] = bare or single or ""
    if faults:
        raise HarnessConfigError(faults)
    return values
