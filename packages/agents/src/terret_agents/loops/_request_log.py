"""What the log knows of an agent's requests, and what each request adds to it."""

from dataclasses import replace

from terret_agents import AgentOptions
from terret_llm import LlmCallConfig, PreparedCall
from terret_sessions import EpochHeader, RequestContext, RequestHeader, Session

from ._prompt import Prompt


class RequestLog:
    """The headers of one agent instance: the first is always logged, later ones on a change."""

    def __init__(self, session: Session, options: AgentOptions) -> None:
        self._session = session
        self._options = options
        self._has_logged = False

    @property
    def route(self) -> tuple[str, str]:
        """Provider and model of the last request, before the first those of the options."""
        last = self._session.request_context() if self._has_logged else None
        if last is not None:
            return last.provider, last.model
        return self._options.provider or "", self._options.model or ""

    def seed(self) -> LlmCallConfig:
        """Returns what a request is made with unless `agent/request` says otherwise.

        That is what the last request of this instance was explicitly made with; before the first
        one the options, and the effort that the log has for their provider and model.
        """
        header = self._session.request_header()
        known = LlmCallConfig() if header is None else _explicit(header)
        if self._has_logged:
            return known
        options = self._options
        seed = LlmCallConfig(
            provider=options.provider or "",
            model=options.model or "",
            max_tokens=options.max_tokens,
        )
        same_route = (seed.provider, seed.model) == (known.provider, known.model)
        return replace(seed, reasoning_effort=known.reasoning_effort) if same_route else seed

    def record(self, config: LlmCallConfig, call: PreparedCall | None, prompt: Prompt) -> None:
        """Logs header and context of a request as far as the log does not have them."""
        header = EpochHeader(
            config=config,
            adapter_defaults=frozenset() if call is None else call.adapter_defaults,
            system=prompt.system,
            tools=prompt.assembly.tools,
            message_prefix=prompt.prefix,
        )
        current = self._session.request_header()
        if not self._has_logged:
            reason = RequestHeader(header, "initial" if current is None else "resume")
            self._session.append("request/header", reason)
            self._has_logged = True
        elif header != current:
            self._session.append("request/header", RequestHeader(header, "change"))
        window = None if call is None else call.context_window
        context = RequestContext(config.provider, config.model, window)
        if context != self._session.request_context():
            self._session.append("request/context", context)


def _explicit(header: EpochHeader) -> LlmCallConfig:
    config, filled = header.config, header.adapter_defaults
    return replace(
        config,
        model="" if "model" in filled else config.model,
        max_tokens=None if "max_tokens" in filled else config.max_tokens,
        reasoning_effort=None if "reasoning_effort" in filled else config.reasoning_effort,
    )
