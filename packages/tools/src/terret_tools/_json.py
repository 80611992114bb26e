"""JSON values that nobody can change, and back."""

from types import MappingProxyType

from terret_llm import replace_surrogates


def freeze(value: object) -> object:
    """Returns a JSON value with read-only mappings and tuples in place of dicts and lists."""
    if isinstance(value, dict):
        return MappingProxyType({key: freeze(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple([freeze(each) for each in value])
    return value


def thaw(value: object) -> object:
    """Returns a plain copy of a frozen or plain JSON value; what is no JSON stays as it is."""
    if isinstance(value, dict | MappingProxyType):
        return {key: thaw(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(each) for each in value]
    return value


def scrub(value: object) -> object:
    """Returns a copy of a JSON value in which no text holds a lone surrogate."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {scrub(key): scrub(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(each) for each in value]
    return value
