"""The service `agentFolders`: the agents of a project, and their running instances."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import anyio

from terret_agents import Agent, AgentNameTakenError, Agents, NoSuchAgentError
from terret_context import Context, Effect, Service
from terret_loader import Fault, Loader
from terret_sessions import SESSION_PERSISTENCE, SessionKey
from terret_system_prompt import SystemPrompt
from terret_tools import Tools

from ._config import AgentFoldersConfig
from ._definition import Definition, DefinitionPart
from ._errors import AgentUnavailableError
from ._instances import Instances
from ._modules import Modules
from ._place import whole
from ._reading import Found, Reader
from ._scaffolding import AgentTemplate, scaffold_agent, scaffold_project, scaffold_subagent


@dataclass(frozen=True, slots=True)
class _Known:
    """An agent of the project. Faults beside a definition are those of a newer, refused one."""

    found: Found
    offer: Effect | None
    """What makes the name known; `None` while somebody else has it."""

    @property
    def definition(self) -> Definition | None:
        return self.found.definition


class AgentFolders(
    Service,
    key="agentFolders",
    config=AgentFoldersConfig,
    inject=(Loader, Agents, Tools, SystemPrompt),
    optional=(SESSION_PERSISTENCE,),  # so that instances have ended before their storage closes
):
    """Agents that are defined by the folders of a project, and their instances."""

    def __init__(self, ctx: Context, config: AgentFoldersConfig) -> None:
        super().__init__(ctx, config)
        self.root = config.root.absolute()
        """The folder of the project."""
        self.environment = config.environment or os.environ.get("TERRET_ENV") or "production"
        """The part of every session key that tells installations apart."""
        self._modules = Modules()
        self._reader = Reader(ctx[Loader], self.root, self._modules, config.defaults)
        self._known: dict[str, _Known] = {}
        self._parts: list[DefinitionPart] = []
        self._instances = Instances(ctx, self._parts, self._vet, config.idle_evict_seconds)
        self._reloading = anyio.Lock()

    def init(self) -> None:
        """Finds the agents. Raises `AgentNameTakenError` if one is known from elsewhere."""
        self.ctx.effect(lambda: self._modules.close, label="modules of agents")
        for found in self._reader.agents():
            self._report(found)
            self._known[found.name] = _Known(found, self._offer(found))
        self._instances.start()

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """The definitions in force, by name."""
        return {
            name: known.definition
            for name, known in self._known.items()
            if known.definition is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all agents of the project, also of those that are not available."""
        return tuple(self._known)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What was wrong at the last reading, folder by folder; `check` asks the parts too."""
        found = (fault for known in self._known.values() for fault in known.found.faults)
        return tuple(dict.fromkeys(found))

    async def check(self) -> tuple[Fault, ...]:
        """Returns `faults` with what the parts find in the definitions in force."""
        more = [each for one in self.definitions.values() for each in await self._check_parts(one)]
        return tuple(dict.fromkeys((*self.faults, *more)))

    async def reload(self) -> tuple[Fault, ...]:
        """Reads all folders again and returns what is wrong, as `check` does.

        New agents are known then, those without folder are not. Idle instances of a changed
        definition are made again at their next use; a faulty one leaves the last valid in force.
        Python files that were imported already are not read again.
        """
        async with self._reloading:
            known = {each.name: await self._renewed(each) for each in self._reader.agents()}
            for name in self._known.keys() - known.keys():
                if (offer := self._known[name].offer) is not None:
                    offer.close()
            self._known = known
        return self.faults

    async def open(self, name: str, raw_id: str | None = None, *, tenant: str = "default") -> Agent:
        """Returns the live agent of a conversation, or makes it, from its log if there is one.

        Without `raw_id` the conversation is a new one. The agent belongs to this service, not to
        the caller, and may be taken down while it is idle: open it again for each message. Raises
        `NoSuchAgentError`, `AgentUnavailableError`, `ValueError` for an id or tenant that cannot
        be, and whatever keeps the agent from starting.
        """
        known = self._known.get(name)
        if known is None:
            raise NoSuchAgentError(name, self.names)
        key = SessionKey(tenant, self.environment, name, raw_id or str(uuid4()))
        definition = known.definition
        if definition is None:
            raise AgentUnavailableError(name, known.found.faults)
        return await self._instances.open(definition, key)

    async def release(self, agent: Agent) -> None:
        """Takes an instance down, so that its log may be moved or deleted; others are no instance.

        Raises `AgentBusyError` while it works.
        """
        await self._instances.release(agent)

    def definition_of(self, agent: Agent) -> Definition | None:
        """Returns what an agent is made of, also while it is being made; `None` for others."""
        return self._instances.definition_of(agent)

    def add_part(self, part: DefinitionPart) -> Effect:
        """Lets a plugin read its part of each definition, and compose the instances made then."""

        def add() -> object:
            self._parts.append(part)
            return lambda: self._parts.remove(part)

        return self.caller.effect(add, label="part of definitions")

    def scaffold_agent(
        self,
        name: str,
        *,
        system_prompt: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        python: bool = False,
    ) -> Path:
        """Writes the file of a new agent of this project; see the function of this name."""
        template = AgentTemplate(
            system_prompt=system_prompt, provider=provider, model=model, python=python
        )
        return scaffold_agent(self.root, name, template)

    def scaffold_subagent(self, parent: str, name: str) -> Path:
        """Writes the file of a new subagent of this project; see the function of this name."""
        return scaffold_subagent(self.root, parent, name)

    @staticmethod
    def scaffold_project(folder: Path) -> tuple[Path, ...]:
        """Writes the files of a new project; see the function of this name."""
        return scaffold_project(folder)

    async def _renewed(self, found: Found) -> _Known:
        """Returns what was found, or with its faults the definition that stays in force."""
        old = self._known.get(found.name)
        offer = old.offer if old is not None else None
        if found.definition is not None:
            faults = await self._check_parts(found.definition)
            found = replace(found, faults=faults, definition=None if faults else found.definition)
        if found.definition is None and old is not None:
            found = replace(found, definition=old.definition)
        try:
            offer = offer or self._offer(found)
        except AgentNameTakenError as error:
            fault = Fault(origin=whole(found.file), path="name", message=str(error))
            found = replace(found, definition=None, faults=(*found.faults, fault))
        self._report(found)
        return _Known(found, offer)

    async def _vet(self, definition: Definition) -> None:
        if faults := await self._check_parts(definition):
            raise AgentUnavailableError(definition.name, faults)

    async def _check_parts(self, definition: Definition) -> tuple[Fault, ...]:
        return tuple([fault for part in self._parts for fault in await part.check(definition)])

    def _offer(self, found: Found) -> Effect:
        name = found.name

        async def start(session_id: str | None) -> Agent:
            return await self.open(name, session_id)

        return self.ctx[Agents].offer(name, start, place=str(whole(found.file)))

    def _report(self, found: Found) -> None:
        logger = self.ctx.logger.bind(logger="agent-definitions")
        for fault in found.faults:
            logger.error("agent not accepted", agent=found.name, fault=str(fault))
