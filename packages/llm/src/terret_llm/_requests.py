from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ._messages import Message
from ._reading import as_object, only, optional, optional_number, required

Purpose = Literal["compaction", "session-title"]


class ToolCodec(Protocol):
    """Translates tool schemas to one provider wire. Codecs of equal `key` give equal bytes."""

    @property
    def key(self) -> Hashable:
        """What the encoded form depends on besides the schema."""
        ...

    def encode_tool(self, tool: "ToolSchema") -> bytes:
        """The schema as the provider's JSON."""
        ...


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """All a model sees of a tool; `parameters` is a JSON Schema whose root is an object."""

    name: str
    description: str
    parameters: Mapping[str, object] = field(hash=False)
    _encoded: dict[Hashable, bytes] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def encoded(self, codec: "ToolCodec") -> bytes:
        """The schema on `codec`'s wire. It is encoded once per codec key and kept."""
        wire = self._encoded.get(codec.key)
        if wire is None:
            wire = self._encoded[codec.key] = codec.encode_tool(self)
        return wire

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }


def tool_schema_from_wire(data: object) -> ToolSchema:
    """Read a tool schema of the log; raises ValueError if it is malformed."""
    wire = as_object(data, "tool schema")
    only(wire, frozenset({"name", "description", "parameters"}), "tool schema")
    return ToolSchema(
        required(wire, "name", str, "tool schema"),
        required(wire, "description", str, "tool schema"),
        required(wire, "parameters", dict, "tool schema"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCallConfig:
    """What a call is made with besides content. An empty provider or model is not chosen yet."""

    provider: str = ""
    model: str = ""
    reasoning_effort: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; what is not chosen is left out."""
        wire: dict[str, object] = {
            "provider": self.provider or None,
            "model": self.model or None,
            "reasoningEffort": self.reasoning_effort,
            "temperature": self.temperature,
            "maxTokens": self.max_tokens,
            "stop": None if self.stop is None else list(self.stop),
        }
        return {key: value for key, value in wire.items() if value is not None}


def call_config_from_wire(data: object) -> LlmCallConfig:
    """Read a call config of the log; raises ValueError if it is malformed."""
    place = "call config"
    wire = as_object(data, place)
    only(wire, _CONFIG_KEYS, place)
    stop = optional(wire, "stop", list, place)
    if stop is not None and not all(type(each) is str for each in stop):
        raise ValueError(f"{place}: 'stop' must hold strings")
    return LlmCallConfig(
        provider=optional(wire, "provider", str, place) or "",
        model=optional(wire, "model", str, place) or "",
        reasoning_effort=optional(wire, "reasoningEffort", str, place),
        temperature=optional_number(wire, "temperature", place),
        max_tokens=optional(wire, "maxTokens", int, place),
        stop=None if stop is None else tuple(stop),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """One request to a model. Frozen; `messages` must not change while it is in use."""

    provider: str
    model: str
    messages: Sequence[Message] = field(hash=False)
    system: str | None = None
    tools: tuple[ToolSchema, ...] = ()
    reasoning_effort: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    session_id: str | None = None
    purpose: Purpose | None = None
    _marked: int = field(default=0, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        config: LlmCallConfig,
        *,
        messages: Sequence[Message],
        system: str | None = None,
        tools: tuple[ToolSchema, ...] = (),
        session_id: str | None = None,
        purpose: Purpose | None = None,
    ) -> "GenerateOptions":
        """The request that sends this content with a config."""
        return cls(
            provider=config.provider,
            model=config.model,
            messages=messages,
            system=system,
            tools=tools,
            reasoning_effort=config.reasoning_effort,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            stop=config.stop,
            session_id=session_id,
            purpose=purpose,
        )

    @property
    def config(self) -> LlmCallConfig:
        """The request without its content."""
        return LlmCallConfig(
            provider=self.provider,
            model=self.model,
            reasoning_effort=self.reasoning_effort,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            stop=self.stop,
        )


def mark_loop_request(request: GenerateOptions) -> GenerateOptions:
    """Mark exactly this object as built by an agent loop, and return it. Copies are not marked."""
    object.__setattr__(request, "_marked", id(request))
    return request


def is_loop_request(request: GenerateOptions) -> bool:
    """Whether an agent loop built this very object; listeners must not change its content."""
    return request._marked == id(request)


_CONFIG_KEYS = frozenset(
    {"provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop"}
)
