"""The service `loader`: it starts a harness, keeps it like its document, and says what is wrong."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from terret_context import (
    Container,
    Context,
    Emit,
    Fiber,
    FiberState,
    Service,
    ServiceKey,
    plugin,
)

from ._entries import Entry, normalise
from ._faults import Fault, HarnessConfigError, Source, in_file_order
from ._merging import merge, value_layer
from ._nodes import Node
from ._overrides import Overrides
from ._plan import Checker, Model, Plan, blocking
from ._records import Records
from ._tree import Diff, EntryChange, Tree

_SLOW: Final = 5.0

READY: Final[ServiceKey[bool]] = ServiceKey("ready")
"""Provided when the first start has settled; a plugin that injects it starts last."""

ENTRY: Final = Emit[EntryChange](
    "loader/entry", doc="An entry of the harness was created, updated or removed."
)


class Loader(Service, key="loader"):
    """Runs the entries of one `harness.yml`, which it never writes."""

    def __init__(
        self,
        ctx: Context,
        root: Container,
        checker: Checker,
        path: Path,
        *,
        safe: bool,
        patience: float,
    ) -> None:
        super().__init__(ctx)
        self.plan = Plan()
        """The plan that is in force."""
        self.faults: tuple[Fault, ...] = ()
        """What is wrong now: entries that do not run, and a document that was not accepted."""
        self.records = Records()
        """The last log records, and what they must not show."""
        self._root = root
        self._checker = checker
        self._path = path
        self._safe = safe
        self._patience = patience
        self._tree = Tree(root)
        self._overrides = Overrides(_source(path))
        self._one_at_a_time = anyio.Lock()
        self._files: frozenset[Path] = frozenset()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries in document order: groups, disabled and skipped ones too."""
        return self.plan.entries

    def fiber(self, path: str) -> Fiber | None:
        """Gives the fiber of an entry, such as `charts/builder`; `None` if it has none."""
        return self._tree.fibers.get(path)

    def recent(self, n: int, fiber: Fiber | None = None) -> list[dict[str, object]]:
        """Gives the last `n` log records, oldest first, without secrets; of one fiber, or all."""
        return self.records.recent(n, fiber=None if fiber is None else fiber.uid)

    async def start(self, plan: Plan) -> None:
        """Mounts a plan, settles, and provides `ready`.

        Raises `HarnessConfigError` if an entry that is not optional does not run then.
        """
        self._root.installed_hint(self._checker.resolver.providers)
        await self._apply(plan)
        self._require_running()
        self.ctx.provide(READY, True)
        await self._root.settle()
        self._require_running()
        self._tell(plan.warnings, ())

    async def reconcile(self, path: str | Path | None = None) -> tuple[Fault, ...]:
        """Reads the document again, or another one, and changes what is different.

        If something is wrong with it, or an entry it touches fails, the tree is as before. Returns
        what is wrong afterwards, which `faults` keeps; raises nothing for it. Calls run one by one.
        """
        async with self._one_at_a_time:
            for entry_path, fiber in self._tree.fibers.items():
                self._overrides.adopt(self._tree.entries[entry_path], fiber)
            await self._follow(self._path if path is None else Path(path))
        return self.faults

    async def override(self, path: str, value: object) -> None:
        """Sets a value such as `bash.timeout` above all files, until the file changes it.

        Kept in memory. Raises `HarnessConfigError`, and changes nothing, if the value is wrong.
        """
        async with self._one_at_a_time:
            forget = self._overrides.add(path, value)
            if not await self._follow(self._path):
                forget()
                raise HarnessConfigError(self.faults)

    def mount(self, ctx: Context, entries: Node | Mapping[str, object], *, base: Path) -> Fiber:
        """Mounts entries in the syntax of `plugins` as one child of a context.

        They are a part of a file that `read_yaml` gave, or plain values, for which `base` is the
        file that mentions them. Raises `HarnessConfigError`, before anything is mounted, for any
        fault of an entry that is not optional.
        """
        plan = self._mountable(entries, base)
        if found := plan.blocking():
            raise HarnessConfigError(found)
        self.records.hide(plan.secrets)

        @plugin(name="entries")
        def group(ctx: Context) -> None:
            Tree(ctx).follow(plan.entries)

        return ctx.plugin(group)

    def check(self, entries: Node | Mapping[str, object], *, base: Path) -> tuple[Fault, ...]:
        """Gives the faults for which `mount` would refuse entries; imports their plugins."""
        return self._mountable(entries, base).blocking()

    def evaluate(self, node: Node, model: type[Model]) -> Model:
        """Makes a model of a part of a file that `read_yaml` gave, by the rules for configurations.

        So `${env:}` and `${file:}` are evaluated, relative paths begin at the file, and secrets are
        kept out of the log. Raises `HarnessConfigError` with all faults.
        """
        value, faults, secrets = self._checker.value(node, model)
        if value is None or faults:
            raise HarnessConfigError(faults)
        self.records.hide(frozenset(secrets))
        return value

    def watch(self, *, collect_ms: int = 200) -> None:
        """Reconciles whenever a file of the document changes, until the loader is disposed."""
        from ._watching import watch as watch_files  # watchfiles, for those who watch only

        stop = anyio.Event()

        async def changed() -> None:
            try:
                await self.reconcile()
            except Exception as error:  # watching goes on, whatever a reconcile did
                self.ctx.report(error, label="reconcile")

        look = partial(watch_files, lambda: self._files, changed, stop=stop, collect_ms=collect_ms)
        self.ctx.spawn(look, name="watch")
        self.ctx.effect(lambda: stop.set, label="watch")

    def _mountable(self, entries: Node | Mapping[str, object], base: Path) -> Plan:
        faults: list[Fault] = []
        layer = (
            normalise(entries, faults.append)
            if isinstance(entries, Node)
            else value_layer("plugins", json.dumps(entries), _source(base), faults.append)
        )
        assert layer is not None  # JSON is YAML
        plan = self._checker.entries(merge(None, layer, faults.append, faults.append))
        return replace(plan, faults=(*faults, *plan.faults))

    async def _follow(self, path: Path) -> bool:
        """Puts a document in force unless it is faulty; returns whether it is in force."""
        previous, known = self.plan, (*self.plan.warnings, *self.faults)
        above = partial(self._overrides.over, previous.document)
        plan = self._checker.document(path, above=above)
        self._files = plan.files | previous.files
        if found := plan.blocking(safe=self._safe):
            return self._reject(found)
        diff = await self._apply(plan)
        stopping = blocking(self.faults, safe=self._safe)
        broken = [fault for fault in stopping if self._failed(fault, diff.touched)]
        if broken:
            await self._apply(previous)
            return self._reject(broken)
        for lost in self._overrides.drop(previous.document, plan.document):
            self.ctx.logger.warning("the file changed an overridden value and wins", path=lost)
        self._path = path
        self._tell(plan.warnings, known)
        return True

    def _tell(self, warnings: Iterable[Fault], known: Iterable[Fault]) -> None:
        """Logs what is wrong with a document that is in force, but for what is known already."""
        told = {(fault.path, fault.message) for fault in known}
        for event, faults in (("without effect", warnings), ("does not run", self.faults)):
            for fault in faults:
                if (fault.path, fault.message) not in told:
                    self.ctx.logger.warning(event, fault=str(fault))

    def _reject(self, faults: Sequence[Fault]) -> bool:
        self.faults = in_file_order([*self._running_faults(), *faults])
        for fault in faults:
            self.ctx.logger.error("not accepted", fault=str(fault))
        return False

    async def _apply(self, plan: Plan) -> Diff:
        self.records.hide(plan.secrets)
        self.plan = plan
        self._files |= plan.files
        diff = Diff()
        slow = self.ctx.spawn(self._name_who_is_slow, name="slow")
        with anyio.move_on_after(self._patience) as scope:
            async with self._root.batch():
                diff = self._tree.follow(plan.entries)
                # What comes may be a successor: it starts when what goes has let go of everything.
                for fiber in diff.ending:
                    await fiber.dispose()
                for fiber, config in diff.updates:
                    await fiber.update(config)
        await slow.aclose()
        if scope.cancelled_caught:
            self._tree.give_up(self._patience)
        self.faults = self._running_faults()
        for change in diff.changes:
            self.ctx.emit(ENTRY, change)
        return diff

    async def _name_who_is_slow(self) -> None:
        await anyio.sleep(_SLOW)
        fibers = self._tree.fibers.items()
        slow = [path for path, fiber in fibers if fiber.state is FiberState.LOADING]
        self.ctx.logger.warning("still loading", entries=", ".join(slow))

    def _failed(self, fault: Fault, touched: set[str]) -> bool:
        fiber = self._tree.fibers.get(fault.entry or "")
        waits = fiber is not None and fiber.state is FiberState.PENDING
        return fault.entry in touched and not waits

    def _require_running(self) -> None:
        self.faults = self._running_faults()
        if blocking(self.faults, safe=self._safe):
            raise HarnessConfigError(self.faults)

    def _running_faults(self) -> tuple[Fault, ...]:
        clean = self.records.text
        running = (
            replace(fault, message=clean(fault.message), details=clean(fault.details))
            for fault in self._tree.faults(self._reason)
        )
        return in_file_order([*self.plan.faults, *running])

    def _reason(self, fiber: Fiber) -> str:
        """Says what a fiber waits for; nothing if that is only the end of the start."""
        explanation = self._root.explain(fiber)
        missing = dict(explanation.missing) or {"": str(explanation)}
        return "; ".join(why for key, why in missing.items() if key != READY.name)


def _source(path: Path) -> Source:
    """Makes the source of values that have no position in a file."""
    return replace(Source.of_file(path, order=sys.maxsize), positions=False)
