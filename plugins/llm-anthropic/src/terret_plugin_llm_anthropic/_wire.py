from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import final

from terret_llm import GenerateOptions, ModelInfo
from terret_llm.http import HttpWire
from terret_llm.wire import ProviderErrors, call_ids_of

from ._config import AnthropicConfig
from ._decoding import MessagesDecoder
from ._encoding import MessagesCodec


@final
class Messages(HttpWire[AnthropicConfig, MessagesDecoder]):
    """Anthropic's Messages protocol."""

    path = "messages"
    distribution = "terret-plugin-llm-anthropic"

    def __init__(self, settings: AnthropicConfig) -> None:
        super().__init__(settings)
        cache: dict[str, object] | None = {"type": "ephemeral"}
        if settings.prompt_cache == "off":
            cache = None
        elif settings.prompt_cache == "1h":
            cache = {"type": "ephemeral", "ttl": "1h"}
        self._codec = MessagesCodec(cache=cache)

    def encode(self, request: GenerateOptions) -> bytes:
        """The body of a request."""
        return self._codec.encode_request(request, self._fields(request))

    def decoder(self, request: GenerateOptions, errors: ProviderErrors) -> MessagesDecoder:
        """What turns the answer into chunks."""
        return MessagesDecoder(
            errors=errors,
            continuations=self.settings.max_continuations,
            is_used=call_ids_of(request.messages),
        )

    def headers(self) -> Mapping[str, str]:
        """The version of the protocol, and its features to switch on."""
        betas = {"anthropic-beta": ",".join(self.settings.betas)} if self.settings.betas else {}
        return {"anthropic-version": self.settings.version, **betas}

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The key, in the header that the server wants."""
        if self.settings.auth == "bearer":
            return {"authorization": f"Bearer {key}"}
        return {"x-api-key": key}

    def resumed(self, request: GenerateOptions, decoder: MessagesDecoder) -> bytes | None:
        """The same conversation with what the model said before it paused."""
        said = decoder.resume(request.provider, request.model)
        if said is None:
            return None
        return self.encode(replace(request, messages=(*request.messages, said)))

    def models(self, listed: Iterable[Mapping[str, object]]) -> list[ModelInfo]:
        """The server's models with the names and windows it gives them."""
        entries = list(listed)
        shown = {each.get("id"): each for each in entries}
        return [_described(info, shown[info.id]) for info in super().models(entries)]

    def _fields(self, request: GenerateOptions) -> dict[str, object]:
        settings = self.settings
        thinking = self._thinking(request)
        sampling = {"temperature": request.temperature, "top_p": settings.top_p}
        if thinking.get("thinking", {"type": "disabled"}) != {"type": "disabled"}:
            sampling = {}  # refused together with thinking
        return {
            "model": request.model,
            "max_tokens": request.max_tokens or settings.max_tokens,
            "stream": True,
            "stop_sequences": list(request.stop) if request.stop else None,
            "system": self._codec.system(request.system),
            **sampling,
            **thinking,
            **settings.extra_body,
        }

    def _thinking(self, request: GenerateOptions) -> dict[str, object]:
        effort, settings = request.reasoning_effort, self.settings
        if request.purpose == "session-title":
            effort = "off" if effort is not None else None
        if effort is None:
            return {}
        if effort == "off":
            return {"thinking": {"type": "disabled"}}
        if settings.thinking_style == "adaptive":
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        budget = settings.thinking_budgets[effort]
        return {
            "thinking": {"type": "enabled", "budget_tokens": budget},
            "max_tokens": (request.max_tokens or settings.max_tokens) + budget,
        }


def _described(info: ModelInfo, entry: Mapping[str, object]) -> ModelInfo:
    title, window = entry.get("display_name"), entry.get("max_input_tokens")
    if info.title is None and isinstance(title, str):
        info = replace(info, title=title)
    if info.context_window is None and isinstance(window, int) and window > 0:
        info = replace(info, context_window=window)
    return info
