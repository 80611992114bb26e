from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, SecretStr, field_validator

from terret_context import Config

TokensField = Literal["max_tokens", "max_completion_tokens"]
Seconds = Annotated[float, Field(gt=0)]


class OpenAiConfig(Config):
    """Settings of one server that speaks chat completions; mount the plugin once per server."""

    provider: Annotated[str, Field(min_length=1)] = "openai"
    """The name agents use for this server."""
    base_url: str = "https://api.openai.com/v1"
    """The address in front of `/chat/completions`."""
    api_key_env: str | None = "OPENAI_API_KEY"
    """The environment variable that holds the key, read at each request; null: no key."""
    api_key: SecretStr | None = None
    """The key itself, for files that take it from elsewhere: `${file:...}`. It beats apiKeyEnv."""
    model: str | None = None
    """The model of agents that name none."""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """The output cap of calls that set none."""
    context_window: Annotated[int, Field(gt=0)] | None = None
    """How many tokens the models take, if that is to be known."""
    temperature: float | None = None
    """The temperature of calls that set none."""
    connect_timeout: Seconds = 10.0
    """Seconds until a connection must stand."""
    first_byte_timeout: Seconds = 300.0
    """Seconds from sending the request until the model's first output, whatever else comes."""
    idle_timeout: Seconds = 180.0
    """Seconds without any byte of the answer, and between two outputs of the model."""
    max_tokens_field: TokensField | None = None
    """What the server calls the output cap; by default the newer name for api.openai.com only."""
    replay_reasoning: bool = False
    """Send the model's reasoning back to it, as DeepSeek's thinking models require."""
    inline_think: bool = False
    """Take `<think>...</think>` in the text for reasoning."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Further keys of every request; null takes a key away."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of every request."""

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and name a host")
        return url.rstrip("/")

    @field_validator("extra_body")
    @classmethod
    def _adds_only(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = {"messages", "model", "stream", "tools"} & body.keys()
        if taken:
            raise ValueError(f"cannot set {', '.join(sorted(taken))}")
        return body

    @property
    def host(self) -> str:
        """The server's host, with its port if the address names one."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def output_cap_name(self) -> TokensField:
        """What the server calls the output cap."""
        newer = self.host == "api.openai.com"
        return self.max_tokens_field or ("max_completion_tokens" if newer else "max_tokens")

    @property
    def is_loopback(self) -> bool:
        """Whether the server runs on this machine, where none asks for a key."""
        name = urlsplit(self.base_url).hostname or ""
        if name == "localhost":
            return True
        try:
            return ip_address(name).is_loopback
        except ValueError:
            return False
