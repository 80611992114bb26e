"""Configurations against the models of their plugins: faults with positions, paths, secrets."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from pydantic import BaseModel

from terret_context import ConfigError, ConfigFault, Plugin, did_you_mean

from ._entries import ENTRY_KEYS
from ._faults import Fault
from ._interpolation import Interpolated
from ._nodes import Node, Report, canonical, child_path
from ._records import SECRETS


def validate(plugin: Plugin, node: Node, config: object, report: Report) -> BaseModel | None:
    """Checks a configuration whose values come from `node`; reports what does not fit."""
    if plugin.config is None:
        for item in node.items.values():
            near = did_you_mean(item.name, ENTRY_KEYS)
            hint = near or f": {plugin.name} takes no configuration"
            report(item.fault(f"unknown key{hint}", key=True))
        return None
    try:
        return plugin.validate(config)
    except ConfigError as error:
        found: dict[str, Fault] = {}
        for part in error.faults:
            fault = _locate(node, part)
            first = found.setdefault(fault.path, fault)
            if fault.message not in first.message:  # the members of a union complain one by one
                message = f"{first.message}, or {fault.message}"
                found[fault.path] = replace(first, message=message)
        for fault in found.values():
            report(replace(fault, message=_without_values(fault.message, config)))
        return None


def settle(
    value: BaseModel, given: Mapping[str, object], node: Node, folder: Path, secrets: set[str]
) -> dict[str, object]:
    """Gives a configuration with its relative paths made absolute.

    A path that a file gives begins at that file, a default at `folder`. `value` is the validated
    form of `given`. Texts that became secrets are added to `secrets`, those from outside also
    without what stands around them.
    """
    defaults = {
        field.alias or name: _absolute(folder, path)
        for name, field in type(value).model_fields.items()
        if name not in value.model_fields_set and isinstance(path := getattr(value, name), PurePath)
    }
    return {**defaults, **_members(value, given, node, secrets)}


def _members(
    value: object, given: Mapping[str, object], node: Node, secrets: set[str]
) -> dict[str, object]:
    return {
        key: _settled(_member(value, key), item, node.items[canonical(key)], secrets)
        for key, item in given.items()
    }


def _settled(value: object, given: object, node: Node, secrets: set[str]) -> object:
    if isinstance(value, SECRETS) and isinstance(given, str):
        secrets.update((str(given), *getattr(given, "parts", ())))
    elif isinstance(value, PurePath) and isinstance(given, str):
        return _absolute(node.source.folder, value)
    elif isinstance(given, dict):
        return _members(value, given, node, secrets)
    elif isinstance(given, list) and isinstance(value, list | tuple) and len(value) == len(given):
        nodes = node.value if isinstance(node.value, tuple) else ()
        return [_settled(*item, secrets) for item in zip(value, given, nodes, strict=True)]
    return given


def _absolute(folder: Path, path: PurePath) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _member(value: object, key: str) -> object:
    if isinstance(value, Mapping):
        return value.get(key)
    for name, field in getattr(type(value), "model_fields", {}).items():
        if key in (name, field.alias) or canonical(name) == canonical(key):
            return getattr(value, name)
    return None


def _locate(node: Node, part: ConfigFault) -> Fault:
    for key in part.path:
        if isinstance(key, str):
            node = node.items.get(canonical(key), node)
        elif isinstance(node.value, tuple) and key < len(node.value):
            node = node.value[key]
    if part.message == "unknown key":
        known = (*part.known, *(ENTRY_KEYS if len(part.path) == 1 else ()))
        few = f" (known: {', '.join(part.known)})" if 0 < len(part.known) < 12 else ""
        return node.fault(part.message + (did_you_mean(node.name, known) or few), key=True)
    if part.message == "is missing":
        fault = node.fault(part.message, key=True)
        return replace(fault, path=child_path(node.path, part.path[-1]))
    return node.fault(part.message)


def _without_values(message: str, config: object) -> str:
    """Puts the source text where a message would show a value from outside."""
    for text in _texts_from_outside(config):
        parts = re.split(rf"(?<!\w){re.escape(text)}(?!\w)", message)
        message = text.source.join(parts)
    return message


def _texts_from_outside(config: object) -> Iterator[Interpolated]:
    if isinstance(config, Interpolated) and config:
        yield config
    elif isinstance(config, Mapping | list):
        for item in config.values() if isinstance(config, Mapping) else config:
            yield from _texts_from_outside(item)
