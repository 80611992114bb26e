from collections.abc import Iterable
from dataclasses import dataclass, replace

from ._errors import HarnessError
from ._requests import LlmCallConfig


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """A provider as lists show it."""

    name: str
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What an adapter knows of one model; None is not known.

    `max_tokens` is the default output cap. Without `reasoning_efforts` every effort is let
    through; with an empty tuple none is.
    """

    id: str
    title: str | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    reasoning_efforts: tuple[str, ...] | None = None
    default_reasoning_effort: str | None = None


def checked_catalog(models: Iterable[ModelInfo], provider: str) -> tuple[ModelInfo, ...]:
    """The whole list, or INVALID_CATALOG."""
    catalog = tuple(models)
    ids = [model.id if isinstance(model, ModelInfo) else None for model in catalog]
    if None in ids or len(set(ids)) < len(ids):
        raise HarnessError(
            f"the model list of provider {provider!r} must hold distinct ModelInfo objects",
            "INVALID_CATALOG",
        )
    return catalog


def checked_model(info: ModelInfo, provider: str, model: str) -> ModelInfo:
    """`info`, if it makes sense for exactly that model, or an INVALID_MODEL_... error."""
    place = f"what the adapter of provider {provider!r} says of model {model!r}"
    if not isinstance(info, ModelInfo) or info.id != model:
        raise HarnessError(f"{place} is not about that model: {info!r}", "INVALID_MODEL_INFO")
    if not _is_count(info.context_window):
        text = f"{place}: the context window is {info.context_window!r}"
        raise HarnessError(text, "INVALID_MODEL_CONTEXT")
    if not _is_count(info.max_tokens):
        text = f"{place}: the output cap is {info.max_tokens!r}"
        raise HarnessError(text, "INVALID_MODEL_MAX_TOKENS")
    default, efforts = info.default_reasoning_effort, info.reasoning_efforts
    if default is not None and efforts is not None and default not in efforts:
        text = f"{place}: the default effort {default!r} is none of {', '.join(efforts)}"
        raise HarnessError(text, "INVALID_MODEL_REASONING")
    return info


def completed(config: LlmCallConfig, info: ModelInfo) -> tuple[LlmCallConfig, frozenset[str]]:
    """`config` with the model's defaults, and the names of the fields they went into.

    Raises UNSUPPORTED_REASONING_EFFORT; an effort is never replaced by a nearby one.
    """
    effort, efforts = config.reasoning_effort, info.reasoning_efforts
    if effort is not None and efforts is not None and effort not in efforts:
        offered = ", ".join(efforts) or "none"
        raise HarnessError(
            f"model {info.id!r} does not offer reasoning effort {effort!r} (it offers: {offered})",
            "UNSUPPORTED_REASONING_EFFORT",
        )
    defaults: dict[str, object] = {}
    if not config.model:
        defaults["model"] = info.id
    if effort is None and info.default_reasoning_effort is not None:
        defaults["reasoning_effort"] = info.default_reasoning_effort
    if config.max_tokens is None and info.max_tokens is not None:
        defaults["max_tokens"] = info.max_tokens
    return replace(config, **defaults), frozenset(defaults)  # type: ignore[arg-type]  # by name


def _is_count(value: int | None) -> bool:
    return value is None or (type(value) is int and value > 0)
