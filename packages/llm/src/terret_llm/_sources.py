from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar

from ._reading import as_object, only, optional, required
from ._slotted import slotted


@slotted
class UserSource:
    """A person; the default of input without a source."""

    kind: ClassVar[str] = "user"

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"kind": "user"}


@slotted
class PluginSource:
    """Context that a plugin injected.

    `form` is one of instructions, catalog, snapshot, notice, relay, recall, or a plugin's own.
    `sections` names the parts of a snapshot; `summary` is the one line of a notice.
    """

    kind: ClassVar[str] = "plugin"
    plugin: str
    form: str | None = None
    sections: tuple[str, ...] | None = None
    summary: str | None = None

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; absent fields are left out."""
        wire: dict[str, object] = {"kind": "plugin", "plugin": self.plugin}
        if self.form is not None:
            wire["form"] = self.form
        if self.sections is not None:
            wire["sections"] = list(self.sections)
        if self.summary is not None:
            wire["summary"] = self.summary
        return wire


@slotted
class ModelSource:
    """The model that wrote a message; `replay_state` is opaque JSON of its adapter."""

    kind: ClassVar[str] = "model"
    provider: str
    model: str
    replay_state: Mapping[str, object] | None = field(default=None, hash=False)

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; an absent replay state is left out."""
        wire: dict[str, object] = {
            "kind": "model",
            "provider": self.provider,
            "model": self.model,
        }
        if self.replay_state is not None:
            wire["replayState"] = dict(self.replay_state)
        return wire


@slotted
class ToolSource:
    """The tool call that a message answers."""

    kind: ClassVar[str] = "tool"
    call_id: str

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"kind": "tool", "callId": self.call_id}


@slotted
class UnknownSource:
    """A source of a kind this version does not know; `data` is its whole JSON object."""

    kind: str
    data: Mapping[str, object] = field(hash=False)

    def to_wire(self) -> dict[str, object]:
        """The JSON object it was read from."""
        return dict(self.data)


Source = UserSource | PluginSource | ModelSource | ToolSource | UnknownSource


def source_from_wire(data: object) -> Source:
    """Read a source of the log; unknown kinds pass through.

    Raises ValueError if a known one is malformed.
    """
    wire = as_object(data, "source")
    kind = required(wire, "kind", str, "source")
    read = _READERS.get(kind)
    return UnknownSource(kind, dict(wire)) if read is None else read(wire)


def _user(wire: Mapping[str, object]) -> UserSource:
    only(wire, frozenset({"kind"}), "user source")
    return UserSource()


def _plugin(wire: Mapping[str, object]) -> PluginSource:
    place = "plugin source"
    only(wire, _PLUGIN_KEYS, place)
    sections = optional(wire, "sections", list, place)
    if sections is not None and not all(type(name) is str for name in sections):
        raise ValueError(f"{place}: 'sections' must hold strings")
    return PluginSource(
        required(wire, "plugin", str, place),
        optional(wire, "form", str, place),
        None if sections is None else tuple(sections),
        optional(wire, "summary", str, place),
    )


def _model(wire: Mapping[str, object]) -> ModelSource:
    place = "model source"
    only(wire, _MODEL_KEYS, place)
    return ModelSource(
        required(wire, "provider", str, place),
        required(wire, "model", str, place),
        optional(wire, "replayState", dict, place),
    )


def _tool(wire: Mapping[str, object]) -> ToolSource:
    only(wire, frozenset({"kind", "callId"}), "tool source")
    return ToolSource(required(wire, "callId", str, "tool source"))


_PLUGIN_KEYS = frozenset({"kind", "plugin", "form", "sections", "summary"})
_MODEL_KEYS = frozenset({"kind", "provider", "model", "replayState"})
_READERS: dict[str, Callable[[Mapping[str, object]], Source]] = {
    "user": _user,
    "plugin": _plugin,
    "model": _model,
    "tool": _tool,
}
