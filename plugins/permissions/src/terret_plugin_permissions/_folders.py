"""The rules of agents in folders: checked with their definitions, bound to their instances."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from terret_context import Context, Effect, ServiceKey
from terret_loader import Fault, HarnessConfigError, Loader, Node, Origin, Source
from terret_sessions import SessionKey

from ._rules import RuleSet
from ._scope import Scope
from ._sources import InlineRules, RuleFile, RuleSource


class AgentDefinition(Protocol):
    """What is read of a definition."""

    @property
    def file(self) -> Path: ...
    @property
    def permissions(self) -> Path | Node | Mapping[str, Any]: ...


class Binder(Protocol):
    """What binds rules, as seen by the context of an agent."""

    def bind(self, *, scope: Scope | None, rules: RuleSource | RuleSet | None) -> Effect: ...


class FolderRules:
    """A part of definitions, as `agentFolders.add_part` takes it."""

    def __init__(self, loader: Loader, permissions: ServiceKey[Binder]) -> None:
        self._loader = loader
        self._permissions = permissions

    async def check(self, definition: AgentDefinition) -> Iterable[Fault]:
        """Returns what is wrong with the rules."""
        try:
            await self._source(definition)
        except HarnessConfigError as error:
            return error.faults
        return ()

    async def install(self, ctx: Context, definition: AgentDefinition, key: SessionKey) -> None:
        """Binds the rules to a new agent."""
        scope, source = (
            Scope(key.tenant, key.environment, key.agent),
            await self._source(definition),
        )
        permissions = ctx.get(self._permissions)
        if permissions is not None:  # else there is no gate either
            permissions.bind(scope=scope, rules=source)

    async def _source(self, definition: AgentDefinition) -> RuleSource:
        given = definition.permissions
        if isinstance(given, Path):
            return await RuleFile.read(self._loader, given, required=False)
        if isinstance(given, Node):
            return InlineRules(self._loader.evaluate(given, RuleSet))
        try:
            return InlineRules(RuleSet.model_validate(given))
        except ValidationError as error:
            found = [
                Fault(
                    origin=Origin(Source.of_file(definition.file)),
                    path=".".join(map(str, ("permissions", *each["loc"]))),
                    message=each["msg"],
                )
                for each in error.errors()
            ]
            raise HarnessConfigError(found) from error


class Folders(Protocol):
    """The service of agents in folders."""

    def add_part(self, part: FolderRules) -> Effect: ...


AGENT_FOLDERS: ServiceKey[Folders] = ServiceKey("agentFolders")
