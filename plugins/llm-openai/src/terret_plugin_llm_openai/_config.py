from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, field_validator, model_validator
from pydantic.alias_generators import to_camel

from terret_llm.chat import ReasoningStyle, ReplayedReasoning
from terret_llm.settings import ServerSettings

from ._presets import PRESETS, Preset


class OpenAiConfig(ServerSettings):
    """Settings of one server that speaks chat completions; mount the plugin once per server.

    A preset fills in what its server wants; each setting beside it beats it.
    """

    provider: Annotated[str, Field(min_length=1)] = "openai"
    """The name agents use for this server."""
    base_url: str = "https://api.openai.com/v1"
    """The address in front of `/chat/completions`."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key, read at each request; empty: no key."""
    preset: Preset = "openai"
    """The server, if it is one of the known ones; its name is also the default of `provider`."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the output cap."""
    system_role: Literal["system", "developer"] = "system"
    """The role of the system prompt."""
    stream_usage: bool = True
    """Ask for token counts; some servers refuse the question and count anyway."""
    reasoning_style: ReasoningStyle = "effort"
    """How an effort is said: as `reasoning_effort` (effort), beside a switch `thinking`
    (thinking), in an object `reasoning` (reasoning), or to the chat template (template). The
    effort `off` switches thinking off."""
    replay_reasoning: ReplayedReasoning | None = None
    """The field in which the model's reasoning goes back to it, where the server wants it."""
    empty_content: Literal["empty", "null", "absent"] = "empty"
    """The content of an answer that only calls tools."""
    call_ids: Literal["any", "short", "nine"] = "any"
    """Ids of tool calls that the server takes: any, up to 40 characters, or nine letters and
    digits. Others are replaced, in call and result alike."""
    inline_think: bool = False
    """Take `<think>...</think>` in the text for reasoning."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        name = given.get("preset", "openai")
        preset = PRESETS.get(name) if isinstance(name, str) else None  # type: ignore[call-overload]  # any text
        if preset is None:  # the field says what is wrong with it
            preset = PRESETS["openai"]
        if "preset" not in given and {"base_url", "baseUrl"} & given.keys():
            preset = {}  # an address of its own is a plain server
        defaults = {"provider": name, **preset}
        left = {
            key: value
            for key, value in defaults.items()
            if key not in given and to_camel(key) not in given
        }
        return {**given, **left}

    @field_validator("extra_body")
    @classmethod
    def _adds_only(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = {"messages", "model", "stream", "tools"} & body.keys()
        if taken:
            raise ValueError(f"cannot set {', '.join(sorted(taken))}")
        return body
