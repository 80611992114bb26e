"""The names of agents: where each was given, and how agents from elsewhere are started."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ._agent import Agent
from ._errors import AgentNameTakenError

StartNamed: TypeAlias = Callable[[str | None], Awaitable[Agent]]
"""`await start(session_id)`: the agent over that session, or over a fresh one for `None`."""


@dataclass(frozen=True, slots=True)
class _Name:
    place: str
    start: StartNamed | None


class AgentNames:
    """All names, each taken once."""

    def __init__(self) -> None:
        self._taken: dict[str, _Name] = {}

    def take(
        self, names: Iterable[str], place: str, start: StartNamed | None
    ) -> Callable[[], None]:
        """Takes names, all or none; returns the undo. Raises `AgentNameTakenError`."""
        taken = {name: _Name(place, start) for name in names}
        for name in taken:
            if (first := self._taken.get(name)) is not None:
                raise AgentNameTakenError(name, first.place, place)
        self._taken.update(taken)

        def free() -> None:
            for name in taken:
                del self._taken[name]

        return free

    def starter(self, name: str) -> StartNamed | None:
        """Returns how an offered agent is started; `None` if the name is not an offered one."""
        found = self._taken.get(name)
        return None if found is None else found.start

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of agents that are started in their own way."""
        return tuple(name for name, taken in self._taken.items() if taken.start is not None)
