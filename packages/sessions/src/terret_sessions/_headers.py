from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import PurePosixPath, PureWindowsPath
from time import time_ns
from typing import Any, Final
from uuid import uuid4

from terret_llm import (
    LlmCallConfig,
    Message,
    ToolSchema,
    call_config_from_wire,
    message_from_wire,
    tool_schema_from_wire,
)

from ._errors import LosslessJsonError
from ._json import check_text, copy_json
from ._reading import Fields, present

LOG_VERSION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMeta:
    """What the creator of a session says about it; it becomes part of the header.

    `cwd` is absolute, `origin` may be "subagent", counts are not negative. Raises ValueError.
    """

    cwd: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None
    origin: str | None = None
    delegation_depth: int | None = None
    agent_preset: str | None = None

    def __post_init__(self) -> None:
        wire = _meta_to_wire(self)
        read = Fields(wire, "session header", *wire)
        for key in ("cwd", "parentSession", "origin", "agentPreset"):
            check_text(read.maybe_text(key) or "")
        read.maybe_count("seedLength")
        read.maybe_count("delegationDepth")
        if self.cwd is not None and not _is_absolute(self.cwd):
            raise ValueError(f"session header: 'cwd' must be absolute, not {self.cwd!r}")
        if self.origin not in (None, "subagent"):
            raise ValueError(f"session header: 'origin' may be subagent, not {self.origin!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader(SessionMeta):
    """Identity and metadata of a session, stored beside its log. `created_at` is epoch ms."""

    id: str
    created_at: int
    version: int = LOG_VERSION

    def __post_init__(self) -> None:
        SessionMeta.__post_init__(self)
        read = Fields(self.to_wire(), "session header", *_HEADER_KEYS)
        if not read.text("id"):
            raise ValueError("session header: 'id' must not be empty")
        check_text(self.id)
        read.count("createdAt")
        if self.version != LOG_VERSION:
            raise ValueError(f"session header: version {self.version!r} is not {LOG_VERSION}")

    def to_wire(self) -> dict[str, object]:
        """The JSON object that is stored; what is absent is left out."""
        return {
            "version": self.version,
            "id": self.id,
            "createdAt": self.created_at,
            **_meta_to_wire(self),
        }


Meta = SessionMeta | Mapping[str, object]


def header_of(session_id: str | None, meta: Meta | None) -> SessionHeader:
    """A header made now; without an id the session gets a fresh one."""
    if meta is None:
        meta = SessionMeta()
    elif not isinstance(meta, SessionMeta):
        try:
            meta = session_meta_from_wire(copy_json(meta))
        except LosslessJsonError as error:
            place = "session metadata"
            raise LosslessJsonError(error.pointer, error.reason, event_type=place) from None
    described = {field.name: getattr(meta, field.name) for field in fields(SessionMeta)}
    now = time_ns() // 1_000_000
    return SessionHeader(
        id=str(uuid4()) if session_id is None else session_id, created_at=now, **described
    )


def session_meta_from_wire(data: object) -> SessionMeta:
    """Read metadata in wire spelling; raises ValueError for unknown keys and wrong values."""
    return SessionMeta(**_meta_fields(Fields(data, "session metadata", *_META_KEYS)))


def session_header_from_wire(data: object) -> SessionHeader:
    """Read a stored header; raises ValueError for unknown keys and wrong values."""
    version = data.get("version") if isinstance(data, dict) else LOG_VERSION
    if version != LOG_VERSION:  # whatever else it has, it may be as that version wants it
        raise ValueError(f"session header: version {version!r} is not {LOG_VERSION}")
    read = Fields(data, "session header", *_HEADER_KEYS)
    return SessionHeader(
        id=read.text("id"),
        created_at=read.count("createdAt"),
        version=read.count("version"),
        **_meta_fields(read),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochHeader:
    """All of a request besides its history, in canonical form: what is empty is absent.

    `adapter_defaults` names the fields of `config` that the adapter filled in: `model`,
    `reasoning_effort`, `max_tokens`. Equality compares every field, tool order included.
    """

    config: LlmCallConfig
    adapter_defaults: frozenset[str] = frozenset()
    system: str | None = None
    tools: tuple[ToolSchema, ...] = ()
    message_prefix: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        unknown = self.adapter_defaults.difference(_MARKERS)
        if unknown:
            raise ValueError(f"header: no adapter fills in {', '.join(sorted(unknown))}")
        object.__setattr__(self, "system", self.system or None)
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "message_prefix", tuple(self.message_prefix))

    def to_wire(self) -> dict[str, object]:
        """The JSON object of `request/header`; what is empty is left out."""
        return {
            "config": self.config.to_wire(),
            **present(
                adapterDefaults={_MARKERS[name]: True for name in sorted(self.adapter_defaults)}
                or None,
                system=self.system,
                tools=[tool.to_wire() for tool in self.tools] or None,
                messagePrefix=[message.to_wire() for message in self.message_prefix] or None,
            ),
        }


def epoch_header_from_wire(data: object) -> EpochHeader:
    """Read a full snapshot; raises ValueError for anything else."""
    read = Fields(data, "header", *_EPOCH_KEYS)
    markers = Fields(
        read.get("adapterDefaults") or {}, "header: 'adapterDefaults'", *_MARKERS.values()
    )
    return EpochHeader(
        config=call_config_from_wire(read.get("config")),
        adapter_defaults=frozenset(name for name, key in _MARKERS.items() if markers.marker(key)),
        system=read.maybe_text("system"),
        tools=tuple(tool_schema_from_wire(tool) for tool in read.maybe_items("tools")),
        message_prefix=tuple(message_from_wire(each) for each in read.maybe_items("messagePrefix")),
    )


def _meta_to_wire(meta: SessionMeta) -> dict[str, object]:
    return present(
        cwd=meta.cwd,
        parentSession=meta.parent_session,
        seedLength=meta.seed_length,
        origin=meta.origin,
        delegationDepth=meta.delegation_depth,
        agentPreset=meta.agent_preset,
    )


def _meta_fields(read: Fields) -> dict[str, Any]:
    return {
        "cwd": read.maybe_text("cwd"),
        "parent_session": read.maybe_text("parentSession"),
        "seed_length": read.maybe_count("seedLength"),
        "origin": read.maybe_text("origin"),
        "delegation_depth": read.maybe_count("delegationDepth"),
        "agent_preset": read.maybe_text("agentPreset"),
    }


def _is_absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()


_META_KEYS = ("cwd", "parentSession", "seedLength", "origin", "delegationDepth", "agentPreset")
_HEADER_KEYS = ("version", "id", "createdAt", *_META_KEYS)
_MARKERS = {
    "model": "model",
    "reasoning_effort": "reasoningEffort",
    "max_tokens": "maxTokens",
}
_EPOCH_KEYS = ("config", "adapterDefaults", "system", "tools", "messagePrefix")
