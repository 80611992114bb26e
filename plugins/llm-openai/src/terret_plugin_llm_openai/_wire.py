from collections.abc import Mapping
from typing import final

from terret_llm import GenerateOptions
from terret_llm.chat import ChatCodec, ChatDecoder, ChatDialect
from terret_llm.http import HttpWire
from terret_llm.wire import ProviderErrors, call_ids_of

from ._config import OpenAiConfig


@final
class ChatCompletions(HttpWire[OpenAiConfig, ChatDecoder]):
    """The chat-completions protocol, in the dialect of one server."""

    path = "chat/completions"
    distribution = "terret-plugin-llm-openai"

    def __init__(self, settings: OpenAiConfig) -> None:
        super().__init__(settings)
        self._codec = ChatCodec(
            ChatDialect(
                max_tokens_field=settings.max_tokens_field,
                system_role=settings.system_role,
                stream_usage=settings.stream_usage,
                reasoning_style=settings.reasoning_style,
                replay_reasoning=settings.replay_reasoning,
                empty_content=settings.empty_content,
                call_ids=settings.call_ids,
            )
        )
        sampling = {} if settings.top_p is None else {"top_p": settings.top_p}
        self._extra: dict[str, object] = {**sampling, **settings.extra_body}

    def encode(self, request: GenerateOptions) -> bytes:
        """The body of a request."""
        return self._codec.encode_request(request, extra=self._extra)

    def decoder(self, request: GenerateOptions, errors: ProviderErrors) -> ChatDecoder:
        """What turns the answer into chunks."""
        return ChatDecoder(
            errors=errors,
            inline_think=self.settings.inline_think,
            is_used=call_ids_of(request.messages),
        )

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The key as a bearer token."""
        return {"authorization": f"Bearer {key}"}
