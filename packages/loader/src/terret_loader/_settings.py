"""What a checked harness consists of: every value with its origin, and the merged document."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from ._annotations import Annotation, is_path, is_secret, member
from ._entries import ENTRY_KEYS, Entry
from ._interpolation import marks
from ._nodes import Node, canonical, child_path
from ._plan import Plan
from ._records import HIDDEN, is_secret_key
from ._resolving import file_of
from ._yaml import CoreScalars


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value of a harness, and what gave it."""

    path: str
    """Its place, such as `charts/chart-builder.image`."""
    text: str
    """The value as YAML has it; of an interpolation its source; `[redacted]` for a secret."""
    origin: str
    """`FILE:LINE:COL`, `preset NAME (FILE:LINE:COL)`, `--set`, `runtime` or `default`."""
    is_hidden: bool = False
    """Whether it is a secret that is written out in a file."""


def settings(plan: Plan, *, env: Mapping[str, str]) -> Iterator[Setting]:
    """Gives all settings of a plan in document order, the defaults of each entry after its own.

    `env` says which variables of the interpolations are set; their values are not shown.
    """
    for entry in plan.entries:
        config, model = _config(entry)
        places = [(entry.path, item, None, key) for key, item in _fields(entry).items()]
        for item in config.items.values():
            inside, name = _member(model, item)
            above = f"{entry.path}.config" if name in ENTRY_KEYS else entry.path
            places.append((above, item, inside, name))
        for above, item, annotation, name in places:
            for path, leaf, inside in _leaves(item, annotation, child_path(above, name)):
                yield _setting(path, leaf, inside, env)
        if not places and not entry.group:
            yield Setting(path=entry.path, text="{}", origin=_origin(entry.node))
        if entry.plugin and (value := entry.plugin.validate(entry.config)) is not None:
            yield from _defaults(value, config, entry.path)


def merged_document(plan: Plan) -> str:
    """Writes the merged document of a plan as YAML, from which the same harness starts.

    Interpolations are written as their source, secrets that a file spells out as `[redacted]`. What
    begins at another folder than that of the harness is moved there.
    """
    entries: dict[str, Any] = {}
    groups = {"": entries}
    for entry in plan.entries:
        written = {key: _plain(item, None, plan.folder) for key, item in _fields(entry).items()}
        for name, value in _plain(*_config(entry), plan.folder).items():
            settings = written.setdefault("config", {}) if name in ENTRY_KEYS else written
            settings[name] = value
        groups[entry.path.rpartition("/")[0]][entry.id] = written
        if entry.group:
            groups[entry.path] = written["plugins"] = {}
    entries.setdefault("logging", None)
    document = {"plugins": entries}
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True
    )


class _Dumper(CoreScalars, yaml.SafeDumper):
    """Writes the scalars that the loader reads."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, text: str) -> yaml.ScalarNode:
        odd = re.search("[\x85\u2028\u2029\ufeff]", text)  # PyYAML would write them as line breaks
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if odd else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _fields(entry: Entry) -> dict[str, Node]:
    """Gives what an entry says of itself beside its configuration."""
    return {k: item for k, item in entry.node.items.items() if k not in ("config", "plugins")}


def _config(entry: Entry) -> tuple[Node, Annotation]:
    node = entry.node.items.get("config") or entry.node.holding({})
    return node, entry.plugin and entry.plugin.config


def _member(annotation: Annotation, item: Node) -> tuple[Annotation, str]:
    inside, name = member(annotation, item.name)
    return inside, name or item.name


def _leaves(
    node: Node, annotation: Annotation, path: str
) -> Iterator[tuple[str, Node, Annotation]]:
    for item in node.items.values():
        inside, name = _member(annotation, item)
        yield from _leaves(item, inside, child_path(path, name))
    if not node.items:
        yield path, node, annotation


def _setting(path: str, node: Node, annotation: Annotation, env: Mapping[str, str]) -> Setting:
    value = _plain(node, annotation, node.source.folder)
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and marks(value):
        text = f"{value} {_state(value, env)}".rstrip()
    return Setting(path=path, text=text, origin=_origin(node), is_hidden=HIDDEN in text)


def _plain(node: Node, annotation: Annotation, folder: Path) -> Any:
    """Gives a value in the spelling of the model, seen from a folder, without secrets."""
    value = node.value
    if isinstance(value, dict):
        members = ((item, *_member(annotation, item)) for item in value.values())
        return {name: _plain(item, inside, folder) for item, inside, name in members}
    if isinstance(value, tuple):
        return [_plain(item, member(annotation, at)[0], folder) for at, item in enumerate(value)]
    is_hidden = is_secret(annotation) or (isinstance(value, str) and is_secret_key(node.name))
    if is_hidden and value is not None and not marks(str(value)):
        return HIDDEN
    if isinstance(value, str) and node.source.folder != folder:
        return _moved(node, value, annotation)
    return value


def _moved(node: Node, text: str, annotation: Annotation) -> str:
    """Makes absolute what begins at the folder of its file."""
    base = node.source.folder
    if node.key == "use" and (file := file_of(text)) is not None:
        return os.path.normpath(base / file) + text[len(file) :]
    if is_path(annotation) and "$" not in text:
        return os.path.normpath(base / os.path.expanduser(text))
    return re.sub(
        r"(?<!\$)((?:\$\$)*\$\{file:)([^}]*)",
        lambda mark: mark[1] + os.path.normpath(base / mark[2]),
        text,
    )


def _defaults(value: BaseModel, node: Node, path: str) -> Iterator[Setting]:
    """Gives the settings of a model that a node leaves out."""
    shown = value.model_dump(mode="json", by_alias=True, fallback=repr)
    for name, field in type(value).model_fields.items():
        inner, outside = getattr(value, name), field.alias or name
        item = node.items.get(canonical(outside))
        if isinstance(inner, BaseModel) and (item is None or item.items):
            yield from _defaults(inner, item or node.holding({}), child_path(path, outside))
        elif item is None:
            default = shown[outside]
            ordered = sorted(default) if isinstance(inner, set | frozenset) else default
            text = json.dumps(ordered, ensure_ascii=False)
            yield Setting(path=child_path(path, outside), text=text, origin="default")


def _state(text: str, env: Mapping[str, str]) -> str:
    """Says whether the variables of a text are set."""
    names = [mark.removeprefix("env:") for mark in marks(text) if mark.startswith("env:")]
    if all(name.partition(":-")[0] in env for name in names):
        return "(set)" if names else ""
    return "(default)" if all(":-" in name for name in names) else "(not set)"


def _origin(node: Node) -> str:
    source, place = node.source, node.origin
    if source.preset:
        return f"preset {source.preset} ({Path(source.label).name}:{place.line}:{place.column})"
    return str(place)
