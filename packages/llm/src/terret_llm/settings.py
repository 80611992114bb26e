"""Settings of plugins for model servers. Importing them imports no HTTP client."""

import re
import shlex
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, SecretStr, field_validator, model_validator

from terret_context import Config

from ._models import ModelInfo
from ._retry_policy import RETRYABLE_CODES, RetryPolicy

__all__ = ["Count", "ModelEntry", "RetrySettings", "Seconds", "ServerSettings"]

_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)

_PROXIES = ("http", "https", "socks5", "socks5h")

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]


class RetrySettings(Config):
    """When and how the plugin `llm-retry` repeats a failed request."""

    retryable_codes: frozenset[str] = RETRYABLE_CODES
    """The codes of failures that may pass."""
    max_retries: Annotated[int, Field(ge=0)] = 5
    """How often a request is repeated at most; 0: never."""
    initial_delay_ms: Annotated[int, Field(ge=0)] = 500
    """The first wait; it doubles from one repetition to the next."""
    max_delay_ms: Annotated[int, Field(ge=0)] = 10_000
    """The longest wait, also for one that the provider asks for."""
    jitter_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """How much a wait differs at random, as a part of it."""

    @model_validator(mode="after")
    def _is_a_policy(self) -> "RetrySettings":
        if self.initial_delay_ms > self.max_delay_ms:
            raise ValueError(f"initialDelayMs must not be above maxDelayMs ({self.max_delay_ms})")
        return self

    def policy(self) -> RetryPolicy:
        """The policy that is registered with the provider."""
        return RetryPolicy(
            retryable_codes=self.retryable_codes,
            max_retries=self.max_retries,
            initial_delay_ms=self.initial_delay_ms,
            max_delay_ms=self.max_delay_ms,
            jitter_ratio=self.jitter_ratio,
        )


class ModelEntry(Config):
    """What is known of one model; what is not said is that of the server."""

    title: str | None = None
    """The name that people see."""
    context_window: Count | None = None
    """How many tokens it takes."""
    max_tokens: Count | None = None
    """The output cap of calls that set none."""
    reasoning_efforts: tuple[str, ...] | None = None
    """The efforts it offers; others are refused. An empty list: none."""
    reasoning_effort: str | None = None
    """The effort of calls that set none."""


class ServerSettings(Config):
    """Settings of one model server; the plugin is mounted once per server."""

    provider: Annotated[str, Field(min_length=1)]
    """The name agents use for this server."""
    base_url: str
    """The address in front of the paths of the protocol."""
    api_key_env: str
    """The environment variable that holds the key, read at each request; empty: no key."""
    api_key: SecretStr | None = None
    """The key itself, for files that take it from elsewhere: `${file:...}`. It beats the others."""
    api_key_command: str | None = None
    """A command that prints the key, run without a shell; it beats apiKeyEnv."""
    api_key_ttl: Annotated[float, Field(ge=0)] = 0.0
    """Seconds for which a key that a command printed is used again."""
    model: str | None = None
    """The model of agents that name none."""
    models: dict[str, ModelEntry] = Field(default_factory=dict)
    """The models to offer; others can be used too. Empty: the server is asked for its list."""
    max_tokens: Count | None = None
    """The output cap of calls that set none."""
    context_window: Count | None = None
    """How many tokens the models take, if that is to be known."""
    reasoning_efforts: tuple[str, ...] | None = None
    """The efforts the models offer; others are refused. Unset: the server decides."""
    reasoning_effort: str | None = None
    """The effort of calls that set none."""
    temperature: float | None = None
    """The temperature of calls that set none."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of likely tokens to choose from, of every call."""
    stop: tuple[str, ...] | None = None
    """Texts that end the answer, of calls that set none."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Further keys of every request; null takes a key away."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Further headers of every request; what they say is not shown, as with keys."""
    session_header: str | None = None
    """The header that carries the id of the session, where the server shall know it."""
    purpose_header: str | None = None
    """The header that says what a request outside the conversation is for, such as `compaction`."""
    connect_timeout: Seconds = 10.0
    """Seconds until a connection must stand."""
    first_byte_timeout: Seconds = 300.0
    """Seconds from sending the request until the model's first output, whatever else comes."""
    idle_timeout: Seconds = 300.0
    """Seconds between two outputs of the model, whatever else comes."""
    total_timeout: Seconds | None = None
    """Seconds for a whole answer; unset: as long as something comes."""
    proxy: SecretStr | None = None
    """The proxy; unset: as the environment says, and none for servers on this machine."""
    retry: RetrySettings = Field(default_factory=RetrySettings)
    """When a failed request may be repeated, for the plugin `llm-retry`."""

    @model_validator(mode="before")
    @classmethod
    def _keeps_keys_apart(cls, given: Any) -> Any:
        """No server gets the key of another one: a further address has no key by default."""
        if not isinstance(given, Mapping) or not {"base_url", "baseUrl"} & given.keys():
            return given
        return (
            given if {"api_key_env", "apiKeyEnv"} & given.keys() else {**given, "api_key_env": ""}
        )

    @model_validator(mode="after")
    def _offers_what_it_uses(self) -> "ServerSettings":
        used = {"reasoningEffort": (self.reasoning_effort, self.offered_efforts)}
        for name, entry in self.models.items():
            efforts = entry.reasoning_efforts
            offered = self.offered_efforts if efforts is None else efforts
            used[f"models.{name}.reasoningEffort"] = (entry.reasoning_effort, offered)
        for place, (effort, offered) in used.items():
            if effort is not None and offered is not None and effort not in offered:
                known = ", ".join(offered) or "none"
                raise ValueError(f"{place}: {effort} is not offered (known: {known})")
        return self

    @field_validator("api_key_command")
    @classmethod
    def _is_command(cls, command: str | None) -> str | None:
        shlex.split(command or "")
        return command

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        scheme, host, rest = _parts(url)
        if scheme not in ("http", "https") or not host:
            raise ValueError("must begin with http:// or https:// and name a host")
        if "@" in urlsplit(url).netloc:
            raise ValueError("must not hold a password, which would be shown: use headers")
        if rest or re.search(r"\s", url):
            raise ValueError("must be an address without query, fragment and white space")
        return url.rstrip("/")

    @field_validator("proxy")
    @classmethod
    def _is_proxy(cls, proxy: SecretStr | None) -> SecretStr | None:
        scheme, host, _ = _parts("" if proxy is None else proxy.get_secret_value())
        if proxy is not None and (scheme not in _PROXIES or not host):
            raise ValueError("must begin with http://, https:// or socks5:// and name a host")
        return proxy

    @field_validator("headers", mode="after")
    @classmethod
    def _are_headers(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        found = {name: value.get_secret_value().strip() for name, value in headers.items()}
        for name, value in found.items():
            _check_header_name(name)
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"{name!r} holds characters that no HTTP header can carry")
        return {name: SecretStr(value) for name, value in found.items()}

    @field_validator("session_header", "purpose_header")
    @classmethod
    def _is_header(cls, name: str | None) -> str | None:
        if name is not None:
            _check_header_name(name)
        return name

    @property
    def host(self) -> str:
        """The server's host, with its port if the address names one."""
        return urlsplit(self.base_url).netloc

    @property
    def place(self) -> str:
        """The server as errors name it: by its provider's name and its host."""
        return f"{self.provider} at {self.host}"

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

    @property
    def offered_efforts(self) -> tuple[str, ...] | None:
        """The efforts of models that have no list of their own; None is every effort."""
        return self.reasoning_efforts

    def model_info(self, model: str) -> ModelInfo:
        """What the settings say of a model, whether it is listed or not."""
        entry = self.models.get(model) or ModelEntry()
        efforts = entry.reasoning_efforts
        if efforts is None:
            efforts = self.offered_efforts
        effort = entry.reasoning_effort or self.reasoning_effort
        if effort is not None and efforts is not None and effort not in efforts:
            effort = None
        return ModelInfo(
            id=model,
            title=entry.title,
            context_window=entry.context_window or self.context_window,
            max_tokens=entry.max_tokens or self.max_tokens,
            reasoning_efforts=efforts,
            default_reasoning_effort=effort,
        )


def _parts(url: str) -> tuple[str, str | None, str]:
    """Scheme, host, and query and fragment. Errors of the parser may quote a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("is no valid address (write special characters as %2F)") from None
    return parts.scheme, parts.hostname, parts.query + parts.fragment


def _check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an HTTP header")
    if name.lower() in ("content-length", "transfer-encoding"):
        raise ValueError(f"{name!r} is set by the client itself")
