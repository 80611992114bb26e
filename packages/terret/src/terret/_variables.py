"""The variables of the environment that set something in every project."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from terret_loader import Entry, Plan

from ._errors import CommandError

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
DATA: Final[Mapping[tuple[str, str], str]] = {
    ("session-jsonl", "root"): "sessions",
    ("session-sqlite", "path"): "sessions.db",
    ("permissions", "audit_folder"): "audit",
}
"""What entries keep in the data directory: the setting, and its place there."""


def set_by_variables(environment: Mapping[str, str], root: Path) -> Iterator[str]:
    """Gives what variables set, as texts `PATH=VALUE`. Raises `CommandError`.

    A relative `TERRET_DATA` begins at the root of the project.
    """
    if level := environment.get("TERRET_LOG"):
        if level not in LEVELS:
            known = ", ".join(LEVELS)
            raise CommandError(f'TERRET_LOG: there is no log level "{level}" (known: {known})')
        yield f"logging.level={level}"
    if data := environment.get("TERRET_DATA"):
        for (entry, key), name in DATA.items():
            text = json.dumps(str(root.absolute() / data / name)).replace("$", "$$")
            yield f"{entry}?.{key}={text}"


def check_data(plan: Plan) -> None:
    """Makes the folders in which entries keep data. Raises `CommandError` if one is closed."""
    for entry in plan.entries:
        for key in (key for name, key in DATA if name == entry.use):
            path: Path = getattr(settings_of(entry), key)
            folder = path if key != "path" else path.parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryFile(dir=folder):
                    continue
            except OSError as error:
                text = f"{entry.path}: nothing can be written in {folder}: {error.strerror}"
                raise CommandError(f"{text}; TERRET_DATA names another place") from None


def settings_of(entry: Entry) -> Any:
    """Gives the configuration that the plugin of a checked entry will see."""
    assert entry.plugin is not None
    assert entry.plugin.config is not None
    return entry.plugin.config.model_validate(entry.config)
