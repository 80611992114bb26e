"""From a folder to a definition, with everything that is wrong with it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from terret_loader import Fault, HarnessConfigError, Loader, Node, read_yaml
from terret_tools import Tool

from ._code import exports, function_of, own_tools
from ._config import AgentConfig, AgentDefaults
from ._definition import Definition, RequestHook
from ._errors import AgentNameError
from ._modules import Modules
from ._names import check_name
from ._place import Place, whole

FILES: Final = ("agent.yml", "agent.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A folder that should define an agent: what it defines, or what is wrong with it."""

    name: str
    folder: Path
    file: Path
    definition: Definition | None
    faults: tuple[Fault, ...]


class Reader:
    """Reads the agent folders of one project."""

    def __init__(
        self, loader: Loader, root: Path, modules: Modules, defaults: AgentDefaults
    ) -> None:
        self.loader = loader
        self.root = root
        self.modules = modules
        self.defaults = defaults

    def agents(self) -> tuple[Found, ...]:
        """Returns the agents of the project, in the order of their folders."""
        return _without_doubles(self._found(each, ()) for each in _folders(self.root / "agents"))

    def _found(self, folder: Path, above: tuple["_Ancestor", ...]) -> Found:
        faults: list[Fault] = []
        files = [folder / name for name in FILES if (folder / name).is_file()]
        if len(files) > 1:
            message = f"there is {whole(files[1])} too: keep one of the two"
            faults.append(Fault(origin=whole(files[0]), message=message))
        if any(folder.resolve() == each.folder.resolve() for each in above):
            message = "the folder leads back to one of the agents above it"
            faults.append(Fault(origin=whole(files[0]), message=message))
        name, definition = folder.name, None
        if not faults:
            one = _Reading(self, Place(files[0], None, self.root, faults.append), above)
            definition = one.definition()
            name = one.name or folder.name
        return Found(
            name=name,
            folder=folder,
            file=files[0],
            definition=None if faults else definition,
            faults=tuple(dict.fromkeys(faults)),
        )

    def children(
        self, folder: Path, above: tuple["_Ancestor", ...], report: Callable[[Fault], None]
    ) -> tuple[Definition, ...]:
        """Returns what the subagents of a folder define; reports their faults."""
        found = _without_doubles(self._found(each, above) for each in _folders(folder))
        for each in found:
            for fault in each.faults:
                report(fault)
        return tuple(each.definition for each in found if each.definition is not None)


@dataclass(frozen=True, slots=True)
class _Ancestor:
    name: str
    folder: Path


class _Reading:
    """The reading of one folder."""

    def __init__(self, reader: Reader, place: Place, above: tuple[_Ancestor, ...]) -> None:
        self._reader = reader
        self._place = place
        self._above = above
        self._exports: Mapping[str, Any] = {}
        self._plugins: Node | Mapping[str, Any] | None = None
        self.name: str | None = None

    def definition(self) -> Definition | None:
        config = self._python() if self._place.file.suffix == ".py" else self._yaml()
        if config is None:
            return None
        self.name = self._checked_name(config)
        place = self._place
        own = _Ancestor(self.name, place.folder)
        tools = self._tools(config)
        children = self._reader.children(
            place.folder / "subagents", (*self._above, own), place.report
        )
        self._compare(config, tools, children)
        return Definition(
            name=self.name,
            folder=place.folder,
            file=place.file,
            config=config,
            node=place.node,
            prompt=self._prompt(config),
            model=config.model or self._reader.defaults.model,
            tools=tools,
            plugins=self._plugins,
            plugin=self._exports.get("plugin"),
            permissions=self._permissions(config),
            skills_dirs=tuple(
                place.path("skillsDirs", text, index)
                for index, text in enumerate(config.skills_dirs)
            ),
            cwd=None if config.cwd is None else place.path("cwd", config.cwd),
            children=children,
            session_id_for=self._hook("sessionIdFor", "session_id_for", config.session_id_for),
            tenant_for=self._hook("tenantFor", "tenant_for", config.tenant_for),
        )

    def _yaml(self) -> AgentConfig | None:
        loader, place = self._reader.loader, self._place
        try:
            node = read_yaml(place.file)
            self._place = replace(place, node=node)
            plugins = node.items.get("plugins")
            rest = {key: item for key, item in node.items.items() if key != "plugins"}
            own = node.holding(rest) if node.items else node
            config = loader.evaluate(own, AgentConfig)
        except HarnessConfigError as error:
            for fault in error.faults:
                place.report(fault)
            return None
        if plugins is not None and plugins.value is not None:
            self._mountable(plugins)
        return config

    def _python(self) -> AgentConfig | None:
        self._exports = exports(self._place, self._reader.modules)
        config = self._exports.get("config")
        if config is not None and config.plugins:
            self._mountable(config.plugins)
        return config if isinstance(config, AgentConfig) else None

    def _mountable(self, entries: Node | Mapping[str, Any]) -> None:
        self._plugins = entries
        for fault in self._reader.loader.check(entries, base=self._place.file):
            self._place.report(fault)

    def _checked_name(self, config: AgentConfig) -> str:
        name = config.name or self._place.folder.name
        try:
            check_name(name)
        except AgentNameError as error:
            self._place.fault("name", str(error))
        if any(name == each.name for each in self._above):
            self._place.fault("name", f'an agent above this one is called "{name}" too')
        return name

    def _prompt(self, config: AgentConfig) -> str:
        place = self._place
        if config.system_prompt is not None:
            if config.prompt_file is not None:
                place.fault("promptFile", "give either systemPrompt or promptFile, not both")
            return config.system_prompt
        if config.prompt_file is None and not (place.folder / "prompt.md").is_file():
            message = "is missing: write it here, into prompt.md, or name a promptFile"
            place.fault("systemPrompt", message)
            return ""
        path = place.path("promptFile", config.prompt_file or "prompt.md")
        try:
            return path.read_text("utf-8").strip()
        except OSError as error:
            place.fault("promptFile", f"{path} cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            place.fault("promptFile", f"{path} is not UTF-8")
        return ""

    def _hook(self, key: str, name: str, text: str | None) -> RequestHook | None:
        exported: RequestHook | None = self._exports.get(name)
        if exported is None and text is not None:
            return function_of(self._place, key, text, self._reader.modules)
        return exported

    def _tools(self, config: AgentConfig) -> tuple[Tool, ...]:
        exported = self._exports.get("tools")
        if exported is None:
            return own_tools(self._place, config.tools, self._reader.modules)
        if config.tools is not None:
            self._place.fault("tools", "give either config.tools or tools, not both")
        return tuple(exported)

    def _permissions(self, config: AgentConfig) -> Path | Node | Mapping[str, Any]:
        given, place = config.permissions, self._place
        if isinstance(given, Mapping):
            return given if place.node is None else place.node.items["permissions"]
        path = place.path("permissions", given or "permissions.yml")
        if given is not None and not path.is_file():
            place.fault("permissions", "there is no such file")
        return path

    def _compare(
        self, config: AgentConfig, tools: tuple[Tool, ...], children: tuple[Definition, ...]
    ) -> None:
        """Reports what does not fit together."""
        place = self._place
        model = config.model or self._reader.defaults.model
        brings_model = self._plugins is not None or "plugin" in self._exports
        if model is None and not brings_model:
            message = "is missing: give it here, or agent-folders.defaults.model in harness.yml"
            place.fault("model", message)
        if model is not None and model.base_url is not None:
            message = "baseUrl belongs to the entry of the provider's plugin"
            place.fault("model", message)
        if self._above and config.tool_description is None:
            place.fault("toolDescription", "is missing: the model of the agent above reads it")
        for child in children:
            if any(each.name == child.name for each in tools):
                message = (
                    f'the subagent in {whole(child.file)} and a tool are both called "{child.name}"'
                )
                place.fault("tools", message)


def _folders(parent: Path) -> Iterator[Path]:
    if not parent.is_dir():
        return
    for folder in sorted(parent.iterdir()):
        hidden = folder.name.startswith((".", "_"))
        if not hidden and any((folder / name).is_file() for name in FILES):
            yield folder


def _without_doubles(found: Iterable[Found]) -> tuple[Found, ...]:
    """Makes folders with one name one faulty finding."""
    by_name: dict[str, list[Found]] = {}
    for each in found:
        by_name.setdefault(each.name, []).append(each)
    return tuple(map(_only, by_name.values()))


def _only(same: list[Found]) -> Found:
    if len(same) == 1:
        return same[0]
    files = " and in ".join(str(whole(each.file)) for each in same)
    message = f'the name "{same[0].name}" is given twice, in {files}'
    fault = Fault(origin=whole(same[1].file), path="name", message=message)
    faults = (*(fault for each in same for fault in each.faults), fault)
    return replace(same[0], definition=None, faults=faults)
