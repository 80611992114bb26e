"""The canonical order of tool schemas."""

from collections import Counter
from collections.abc import Iterable, Sequence

from terret_llm import ToolSchema

from ._assembly import ProvidedTools
from ._errors import PromptAssemblyError

REST = "<unlisted-tools>"


def check_order(order: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Returns a configured order, or raises `ValueError` for one that cannot be meant."""
    if order is None:
        return None
    if REST not in order:
        raise ValueError(f"needs {REST!r}, the place of the tools it does not name")
    if twice := _repeated(order):
        raise ValueError(f"names {', '.join(twice)} twice")
    return order


def arrange(
    order: tuple[str, ...] | None, provided: Sequence[ProvidedTools]
) -> tuple[ToolSchema, ...]:
    """Returns the schemas of all providers in canonical order.

    By name, or as `order` says. Raises `PromptAssemblyError` for a name that no provider knows,
    one that two schemas have, and one that is the placeholder of the rest.
    """
    schemas = sorted([each for one in provided for each in one.schemas], key=lambda s: s.name)
    names = [schema.name for schema in schemas]
    if twice := _repeated(names):
        raise PromptAssemblyError(f"tools {', '.join(twice)}", "are offered twice")
    if REST in names:
        raise PromptAssemblyError(f"tool {REST}", "has the name that stands for all other tools")
    if order is None:
        return tuple(schemas)
    _check_known(order, provided)
    place = {name: index for index, name in enumerate(order)}
    return tuple(sorted(schemas, key=lambda schema: place.get(schema.name, place[REST])))


def _check_known(order: tuple[str, ...], provided: Sequence[ProvidedTools]) -> None:
    known = {REST}
    for one in provided:
        known.update(s.name for s in one.schemas)
        known.update(one.known_names or ())
    if unknown := [name for name in order if name not in known]:
        raise PromptAssemblyError(
            f"toolOrder names {', '.join(unknown)}",
            f"which no provider knows; known: {', '.join(sorted(known - {REST})) or '(none)'}",
        )


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
