import re
from dataclasses import dataclass
from typing import Final, Literal

from terret_llm.wire import fitting_id

ReasoningStyle = Literal["effort", "thinking", "reasoning", "template"]
ReplayedReasoning = Literal["reasoning_content", "reasoning", "reasoning_details"]
OFF: Final = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """What one server wants otherwise than the others; the defaults are what most take.

    Attributes:
        max_tokens_field: The name of the output cap.
        system_role: The role of the system prompt.
        stream_usage: Whether to ask for token counts; some servers refuse the question and count
            anyway.
        reasoning_style: How an effort is said. `effort`: as `reasoning_effort`. `thinking`: that,
            and `thinking` switched on or off. `reasoning`: inside an object `reasoning`.
            `template`: as `enable_thinking` for the chat template. The effort `off` switches
            thinking off.
        replay_reasoning: The field in which the model's reasoning goes back to it; None: it does
            not, and some servers refuse it.
        empty_content: The content of an answer that only calls tools.
        call_ids: Which ids of tool calls the server takes: any, up to 40 characters, or exactly
            nine letters and digits. Others are replaced, in call and result alike.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    stream_usage: bool = True
    reasoning_style: ReasoningStyle = "effort"
    replay_reasoning: ReplayedReasoning | None = None
    empty_content: Literal["empty", "null", "absent"] = "empty"
    call_ids: Literal["any", "short", "nine"] = "any"

    def call_id(self, id: str) -> str:
        """The id as this server takes it."""
        rule = _ID_RULES.get(self.call_ids)
        return id if rule is None else fitting_id(id, rule[0], length=rule[1])

    def effort_fields(self, effort: str | None) -> dict[str, object]:
        """The fields of a request that say how much the model shall think."""
        if effort is None:
            return {}
        on = effort != OFF
        if self.reasoning_style == "thinking":
            switch: dict[str, object] = {"thinking": {"type": "enabled" if on else "disabled"}}
            return switch | ({"reasoning_effort": effort} if on and effort != "on" else {})
        if self.reasoning_style == "reasoning":
            return {"reasoning": {"effort": effort} if on else {"enabled": False}}
        if self.reasoning_style == "template":
            return {"chat_template_kwargs": {"enable_thinking": on}}
        return {"reasoning_effort": effort if on else "none"}


_ID_RULES = {
    "short": (re.compile(r".{1,40}", re.DOTALL), 24),
    "nine": (re.compile(r"[a-zA-Z0-9]{9}"), 9),
}
