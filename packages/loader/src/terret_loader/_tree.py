"""The fibers of a plan below one context, and the keyed diff to the next plan."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from terret_context import Context, DuplicateServiceError, Fiber, FiberState, TerretError

from ._entries import Entry
from ._faults import Fault, traceback_of, with_place
from ._nodes import canonical


@dataclass(frozen=True, slots=True)
class EntryChange:
    """An entry was created (no `previous`), updated, or removed (no `entry`)."""

    entry: Entry | None
    previous: Entry | None


@dataclass(frozen=True, slots=True)
class Diff:
    """What a new plan changed, and what is still to be awaited: ends and updates."""

    changes: list[EntryChange] = field(default_factory=list)
    ending: list[Fiber] = field(default_factory=list)
    updates: list[tuple[Fiber, Mapping[str, object]]] = field(default_factory=list)

    @property
    def touched(self) -> set[str]:
        """The paths of entries that were created or updated."""
        return {change.entry.path for change in self.changes if change.entry is not None}


class StillLoadingError(TerretError, TimeoutError):
    """The body of a plugin takes too long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"still loading after {seconds:g} s")


class Tree:
    """Mounts entries below a context, all as its children; groups are realms, not fibers."""

    def __init__(self, ctx: Context) -> None:
        self.entries: dict[str, Entry] = {}
        self.fibers: dict[str, Fiber] = {}
        self._refused: dict[str, Exception] = {}
        self._ctx = ctx
        self._views: dict[str, Context] = {}

    def follow(self, entries: Iterable[Entry]) -> Diff:
        """Disposes, moves, mounts and leaves alone what it must; updates are left to the caller."""
        old, new = self.entries, {entry.path: entry for entry in entries}
        self.entries = new
        diff = Diff()
        gone = [path for path in old if not _stays(old[path], new.get(path))]
        for path in gone:
            if (fiber := self.fibers.get(path)) is not None:
                diff.ending.append(fiber)
            self._drop(path)
            if path not in new:
                diff.changes.append(EntryChange(None, old[path]))
        self._move([new[path] for path in old.keys() - gone if old[path].own != new[path].own])
        for path, entry in new.items():
            previous, is_new = old.get(path), path not in self._views
            if is_new:
                self._views[path] = self._around(entry).with_realms(_labels(entry))
            elif previous and _same(entry, previous) and path not in self._refused:
                continue
            diff.changes.append(EntryChange(entry, previous))
            fiber = self.fibers.get(path)
            if fiber is None or fiber.ends:
                self._mount(entry)
            elif previous is None or not _same_config(entry, previous):
                diff.updates.append((fiber, entry.config))
        return diff

    def faults(self, explain: Callable[[Fiber], str]) -> Iterator[Fault]:
        """Says of each entry that is not active why."""
        for path, entry in self.entries.items():
            fiber = self.fibers.get(path)
            if (error := self._refused.get(path)) is not None:
                given_up = isinstance(error, StillLoadingError)
                message = str(error) if given_up else with_place(error)
            elif fiber is None or fiber.ends or fiber.state is FiberState.ACTIVE:
                continue
            elif fiber.state is FiberState.FAILED and isinstance(fiber.error, Exception):
                message, error = f"failed: {with_place(fiber.error)}", fiber.error
            else:
                message = explain(fiber)
            if message:
                yield replace(
                    entry.node.fault(message, key=True),
                    entry=path,
                    optional=entry.optional,
                    error=error,
                    details=traceback_of(error) if error else "",
                )

    def give_up(self, seconds: float) -> None:
        """Disposes what is still loading: it had so many seconds."""
        for path, fiber in list(self.fibers.items()):
            if fiber.state is FiberState.LOADING:
                self._drop(path)
                self._refused[path] = StillLoadingError(seconds)

    def _mount(self, entry: Entry) -> None:
        if entry.plugin is None:
            return
        self._refused.pop(entry.path, None)
        try:
            self.fibers[entry.path] = self._views[entry.path].plugin(
                entry.plugin, entry.config or None, inject=entry.inject, entry=entry
            )
        except Exception as error:  # a conflict with other plugins, or the veto of a mount check
            self._refused[entry.path] = error

    def _drop(self, path: str) -> None:
        self._views.pop(path, None)
        self._refused.pop(path, None)
        fiber = self.fibers.pop(path, None)
        if fiber is not None:
            fiber.retire()

    def _move(self, entries: list[Entry]) -> None:
        """Gives running entries other realms."""
        if not entries:
            return
        try:
            self._ctx.root.set_realms({self._views[e.path]: _labels(e) for e in entries})
        except DuplicateServiceError:
            # What is on its way out still holds a place; it is free by the time they start again.
            below = tuple(f"{entry.path}/" for entry in entries)
            paths = [e.path for e in entries] + [p for p in self._views if p.startswith(below)]
            for path in paths:
                self._drop(path)

    def _around(self, entry: Entry) -> Context:
        """Gives the view of the group that an entry is in."""
        return self._views.get(entry.path.rpartition("/")[0], self._ctx)


def _labels(entry: Entry) -> dict[str, str | None]:
    """Gives the realms of an entry itself; one without label is for nobody else."""
    return {key: None if label.startswith("#") else label for key, label in entry.own}


def _stays(old: Entry, new: Entry | None) -> bool:
    """Whether a running entry needs no more than another configuration and other realms."""
    if old == new or new is None:
        return new is not None
    if old.group and new.group:
        return True
    kept = replace(old, config=new.config, optional=new.optional, own=new.own, realms=new.realms)
    return kept == new


def _same(a: Entry, b: Entry) -> bool:
    return a == b or (a.own == b.own and _stays(a, b) and _same_config(a, b))


def _same_config(a: Entry, b: Entry) -> bool:
    return a.config == b.config or _canonical(a.config) == _canonical(b.config)


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return {canonical(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value
