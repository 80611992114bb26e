"""Settings of the entry `system-prompt`."""

from pydantic import field_validator

from terret_context import Config

from ._tool_order import check_order


class SystemPromptConfig(Config):
    """Settings of the entry `system-prompt`; a change applies to the next assembly."""

    include_harness_identity: bool = True
    """Begin the system text with a sentence that names the harness."""
    include_runtime_context: bool = True
    """Tell the model changing facts, such as the date, in messages of their own."""
    persona: str = ""
    """Who the agents of this deployment are; may hold `{{variables}}`."""
    tool_order: tuple[str, ...] | None = None
    """Names of tools in the order in which models see them, with `<unlisted-tools>` for the rest;
    by name if it is left out."""

    _check_tool_order = field_validator("tool_order")(check_order)
