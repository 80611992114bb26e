from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from terret_llm.settings import Count, ServerSettings

EFFORTS = ("off", "low", "medium", "high", "xhigh", "max")


class AnthropicConfig(ServerSettings):
    """Settings of one server that speaks the Messages protocol."""

    provider: Annotated[str, Field(min_length=1)] = "anthropic"
    """The name agents use for this server."""
    base_url: str = "https://api.anthropic.com/v1"
    """The address in front of `/messages`."""
    api_key_env: str = "ANTHROPIC_API_KEY"
    """The environment variable that holds the key, read at each request; empty: no key."""
    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    """The header in which the server wants the key."""
    version: str = "2023-06-01"
    """The version of the protocol."""
    betas: tuple[str, ...] = ()
    """Names of features to switch on, for the header `anthropic-beta`."""
    max_tokens: Count = 8192
    """The output cap of calls that set none; a thinking budget comes on top of it."""
    thinking_style: Literal["adaptive", "budget"] = "adaptive"
    """How an effort is said: by name, and the model decides how much it thinks; or as a budget of
    tokens, for models up to Claude 4.5."""
    thinking_budgets: dict[str, Annotated[int, Field(ge=1024)]] = Field(
        default_factory=lambda: {"low": 2048, "medium": 8192, "high": 16384, "max": 32768}
    )
    """Tokens for each effort, with `thinkingStyle: budget`."""
    prompt_cache: Literal["off", "5m", "1h"] = "5m"
    """How long the provider keeps the beginning of a conversation."""
    max_continuations: Annotated[int, Field(ge=0)] = 8
    """How often a turn that the model paused goes on by itself."""

    @model_validator(mode="after")
    def _offers_efforts(self) -> "AnthropicConfig":
        unknown = set(self.reasoning_efforts or ()) - set(self._efforts())
        if unknown:
            raise ValueError(
                f"reasoningEfforts: {', '.join(sorted(unknown))} is none of "
                f"{', '.join(self._efforts())}"
            )
        return self

    @field_validator("extra_body")
    @classmethod
    def _adds_only(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = {"messages", "model", "stream", "system"} & body.keys()
        if taken:
            raise ValueError(f"cannot set {', '.join(sorted(taken))}")
        return body

    @property
    def offered_efforts(self) -> tuple[str, ...]:
        """Without a list, every effort of the style."""
        return self._efforts() if self.reasoning_efforts is None else self.reasoning_efforts

    def _efforts(self) -> tuple[str, ...]:
        return ("off", *self.thinking_budgets) if self.thinking_style == "budget" else EFFORTS
