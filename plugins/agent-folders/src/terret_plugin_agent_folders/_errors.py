"""What can go wrong with agents in folders."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from terret_context import TerretError
from terret_llm import HarnessError
from terret_loader import Fault


class AgentNameError(TerretError, ValueError):
    """A name, or one segment of a path of names, is no name of an agent."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f'"{name}" is no name of an agent: {reason}')


class AgentExistsError(TerretError, FileExistsError):
    """There is an agent of that name already; nothing was written."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        super().__init__(f'there is an agent "{name}" already, in {folder}')


class AgentNotFoundError(TerretError, LookupError):
    """A folder that should hold an agent holds none; nothing was written."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        super().__init__(f'there is no agent "{name}": {folder} has no agent.yml and no agent.py')


class AgentModelError(TerretError, ValueError):
    """A provider was chosen without a model, and has no usual one; nothing was written."""

    def __init__(self, provider: str, known: Iterable[str]) -> None:
        self.provider = provider
        self.known = tuple(known)
        super().__init__(
            f'say which model of the provider "{provider}" (only these have a usual one: '
            f"{', '.join(self.known)})"
        )


class ProjectExistsError(TerretError, FileExistsError):
    """Files of a new project are there already; nothing was written."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        super().__init__(f"there already: {', '.join(map(str, files))}")


class AgentUnavailableError(HarnessError):
    """The definition of an agent is invalid, and no valid one was in force before."""

    def __init__(self, name: str, faults: Iterable[Fault]) -> None:
        self.name = name
        self.faults = tuple(faults)
        lines = [f'the agent "{name}" is not available:', *map(str, self.faults)]
        super().__init__("\n".join(lines), "AGENT_UNAVAILABLE")
