from collections.abc import Mapping

from terret_llm._outcomes import Usage


def usage_of(wire: Mapping[str, object]) -> Usage | None:
    """The provider's count in disjoint buckets: its prompt tokens contain those of the cache.

    None if it did not count the prompt: half a count would be taken for a small conversation.
    """
    total = _first(wire.get("prompt_tokens"))
    if total is None:
        return None
    prompt = _part(wire, "prompt_tokens_details")
    completion = _part(wire, "completion_tokens_details")
    read = _first(
        prompt.get("cached_tokens"), wire.get("prompt_cache_hit_tokens"), wire.get("cached_tokens")
    )
    written = _first(prompt.get("cache_write_tokens"))
    return Usage(
        max(total - (read or 0) - (written or 0), 0),
        _first(wire.get("completion_tokens")) or 0,
        read,
        written,
        _first(completion.get("reasoning_tokens")),
    )


def _part(wire: Mapping[str, object], key: str) -> Mapping[str, object]:
    part = wire.get(key)
    return part if isinstance(part, Mapping) else {}


def _first(*values: object) -> int | None:
    """The first count among `values`; some servers write them as floats."""
    return next(
        (int(value) for value in values if isinstance(value, int | float) and 0 <= value < 2**53),
        None,
    )
