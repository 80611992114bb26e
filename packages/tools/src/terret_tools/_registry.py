"""Which tools a scope sees."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from terret_context import AnonymousLayers, Context, Effect, NamedLayers, scope_chain, scope_of
from terret_llm import ToolSchema

from ._calls import ToolExec
from ._definition import Tool
from ._registration import Registration

Guard = Callable[[ToolExec], str | None]

RESERVED = frozenset({"run_code"})


@dataclass(frozen=True, slots=True)
class _Restriction:
    allow: frozenset[str] | None
    deny: frozenset[str]

    def admits(self, name: str) -> bool:
        return name not in self.deny and (self.allow is None or name in self.allow)


@dataclass(frozen=True, slots=True)
class View:
    """The tools of one scope; `known` holds the hidden ones too."""

    tools: dict[str, Registration]
    schemas: tuple[ToolSchema, ...]
    known: frozenset[str]


class Registry:
    """Tools, tool guards and restrictions, by scope."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._tools = NamedLayers[Registration]("tool")
        self._guards = AnonymousLayers[Guard]("tool guard")
        self._restrictions = AnonymousLayers[_Restriction]("restriction of tools")
        self._views: dict[tuple[int, ...], View] = {}
        self._announce = changed

    def add(self, ctx: Context, tool: Tool) -> Effect:
        if tool.name in RESERVED:
            raise ValueError(f'"{tool.name}" is a reserved tool name')
        registration = Registration(tool)

        def body() -> object:
            added = self._tools.add(ctx, tool.name, registration, changed=self._changed)
            yield registration.drain  # undone after the tool is hidden
            yield added

        return ctx.effect(body, label=f'tool "{tool.name}"')

    def add_guard(self, ctx: Context, guard: Guard) -> Effect:
        return self._guards.add(ctx, guard, changed=self._changed)

    def restrict(
        self, ctx: Context, allow: Collection[str] | None, deny: Collection[str] | None
    ) -> Effect:
        scope = scope_of(ctx)
        if scope is None:
            raise ValueError("restrict needs a scoped context, such as that of an agent")
        if not allow and not deny:
            raise ValueError("restrict needs the names of tools to allow or to deny")
        names = {*(allow or ()), *(deny or ())}
        if unknown := sorted(names - self.view(scope).known):
            known = ", ".join(sorted(self.view(scope).known)) or "(none)"
            raise ValueError(f"restrict names unknown tools {', '.join(unknown)}; known: {known}")
        restriction = _Restriction(frozenset(allow) if allow else None, frozenset(deny or ()))
        return self._restrictions.add(ctx, restriction, changed=self._changed)

    def find(self, name: str, scope: object | None) -> Registration | None:
        return self.view(scope).tools.get(name)

    def guards(self, scope: object | None) -> Collection[Guard]:
        return self._guards.collect(scope)

    def view(self, scope: object | None) -> View:
        # Agents without tools of their own share one view. Ids are safe keys: a layer holds its
        # scope, and whenever one comes or goes all views are dropped.
        chain = [
            each
            for each in scope_chain(scope)
            if self._tools.layer(each) or self._restrictions.layer(each)
        ]
        key = tuple([id(each) for each in chain])
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._look(chain)
        return view

    def _look(self, chain: list[object]) -> View:
        tools = dict(self._tools.layer(None))
        known = set(tools)
        for scope in reversed(chain):
            for restriction in self._restrictions.layer(scope):
                tools = {name: each for name, each in tools.items() if restriction.admits(name)}
            tools |= self._tools.layer(scope)
            known |= self._tools.layer(scope).keys()
        return View(tools, tuple([each.schema() for each in tools.values()]), frozenset(known))

    def _changed(self) -> None:
        self._views.clear()
        self._announce()
