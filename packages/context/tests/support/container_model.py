"""What the container is, in rules: a small pure calculus that property tests compare it with.

A world consists of nodes (fibers), bindings and listeners. `moves` gives every line that a
container in this state may write next, with the world after it; `accept` takes the lines of what
came from outside. Time and order of scheduling do not exist here: whatever is enabled may happen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from container_scripts import Mount, Recipe

PENDING, LOADING, ACTIVE, UNLOADING, FAILED, DISPOSED = (
    "PENDING",
    "LOADING",
    "ACTIVE",
    "UNLOADING",
    "FAILED",
    "DISPOSED",
)
Slot: TypeAlias = tuple[str, str]
Item: TypeAlias = tuple[str, object]


class Line(NamedTuple):
    """One line of a ledger; `seen` are the objects that the plugin read at this point."""

    what: str
    fiber: str
    detail: object = None
    seen: tuple[str | None, ...] = ()


class Token(NamedTuple):
    """The object of a binding: who provides it, which one it is, and if its view was isolated."""

    owner: str
    serial: str
    isolated: bool = False


Target: TypeAlias = tuple[int, tuple[Token | None, ...]]


@dataclass(frozen=True, slots=True)
class Node:
    """A fiber. `failed` is the generation that failed; `busy` is the undo that runs."""

    name: str
    parent: str
    recipe: Recipe | None = None
    scope: str | None = None
    own_isolated: frozenset[str] = frozenset()
    isolated: frozenset[str] = frozenset()
    level: int = 0
    used_level: int = 0
    order: int = 0
    state: str = PENDING
    generation: int = 0
    failed: int = -1
    committed: Target | None = None
    episode: int = 0
    done: int = 0
    body: str = "over"
    retired: bool = False
    stack: tuple[Item, ...] = ()
    busy: Item | None = None

    @property
    def needs(self) -> tuple[tuple[str, bool], ...]:
        return self.recipe.needs if self.recipe else ()

    @property
    def promised(self) -> tuple[Slot, ...]:
        return tuple(map(self.slot, self.recipe.promised)) if self.recipe else ()

    def slot(self, key: str, *, isolated: bool = False) -> Slot:
        return key, "isolated" if isolated or key in self.isolated else ""

    def without(self, item: Item) -> "Node":
        return replace(self, stack=tuple(one for one in self.stack if one != item))


class Heard(NamedTuple):
    """A listener, in the order of dispatch."""

    owner: str
    name: str
    scope: str | None


ROOT = Node("root", "", state=ACTIVE, committed=(0, ()))


@dataclass(frozen=True)
class World:
    """A state of the whole container; nodes are in order of mounting."""

    nodes: dict[str, Node] = field(default_factory=lambda: {"root": ROOT})
    bindings: dict[Slot, Token] = field(default_factory=dict)
    listeners: tuple[Heard, ...] = ()
    given: frozenset[tuple[str, Slot]] = frozenset()
    mounted: int = 0

    def key(self) -> object:
        """Worlds of one key are the same."""
        bindings = frozenset(self.bindings.items())
        return tuple(self.nodes.values()), bindings, self.listeners, self.given

    # ---- what holds in it

    def ancestors(self, node: Node) -> Iterator[Node]:
        while node.parent:
            node = self.nodes[node.parent]
            yield node

    def drained(self, node: Node) -> bool:
        """Whether nobody runs with an object that the node provides, or did."""
        views = (other.committed[1] for other in self.nodes.values() if other.committed)
        return not any(token and token.owner == node.name for view in views for token in view)

    def doomed(self, node: Node) -> bool:
        """Whether its parent's undo has come to it: the run of children on top of the stack."""
        parent = self.nodes[node.parent]
        if parent.state != UNLOADING or parent.busy or not self.drained(parent):
            return False
        for item in reversed(parent.stack):
            if item[0] != "child":
                return False
            if item[1] == node.name:
                return True
        return False

    def offered(self, node: Node, key: str) -> Token | None:
        token = self.bindings.get(node.slot(key))
        if token is None or self.nodes[token.owner].state != ACTIVE:
            return None
        provider = self.nodes[token.owner]
        kin = provider is node or node in self.ancestors(provider)
        return None if kin else token

    def closes_cycle(self, node: Node, token: Token) -> bool:
        """Whether the provider depends on the node by required edges, or ones of later nodes.

        A child depends on its parent. Whoever once provided something, or had a child do so, counts
        as one who does.
        """
        open_, seen = [token.owner], set[str]()
        while open_:
            here = self.nodes[open_.pop()]
            if here.name == node.name:
                return True
            if here.name not in seen:
                seen.add(here.name)
                open_ += [here.parent] if here.parent else []
                for key, required in here.needs:
                    if required or here.order > node.order:
                        open_ += self.givers(here, here.slot(key))
        return False

    def givers(self, node: Node, slot: Slot) -> Iterator[str]:
        """Those who ever provided or declared a slot, but for the node's descendants."""
        for other in self.nodes.values():
            if (other.name, slot) in self.given and node not in self.ancestors(other):
                yield other.name

    def providers(self, slot: Slot) -> Iterator[str]:
        if slot in self.bindings:
            yield self.bindings[slot].owner
        yield from (node.name for node in self.nodes.values() if slot in node.promised)

    def target(self, node: Node) -> Target | None:
        """What the node should run with now."""
        if node.retired or node.failed == node.generation:
            return None
        if node.committed is None:
            held = (self.bindings.get(slot) for slot in node.promised)
            if any(token and token.owner != node.name for token in held):
                return None
            if self.nodes[node.parent].state not in (LOADING, ACTIVE):
                return None
        view: list[Token | None] = []
        for key, required in node.needs:
            token = self.offered(node, key)
            if token is None and required:
                return None
            skipped = token and not required and self.closes_cycle(node, token)
            view.append(None if skipped else token)
        return node.generation, tuple(view)

    def admits(self, node: Node) -> bool:
        return node.state in (LOADING, ACTIVE) or (node.state == PENDING and not node.retired)

    def conflicts(self, slots: tuple[Slot, ...], *, surely: bool, but: str = "") -> bool:
        """Whether somebody else, who is not being disposed, provides or declares a slot."""
        for slot in slots:
            for name in self.providers(slot):
                node = self.nodes[name]
                ends = node.retired or (surely and self.may_be_doomed(node))
                if name != but and not ends:
                    return True
        return False

    def seen(self, node: Node) -> tuple[str | None, ...]:
        """What the node reads for the keys that it declares: its own object, or the one it got."""
        view = node.committed[1] if node.committed else (None,) * len(node.needs)
        own = [self.bindings.get(node.slot(key)) for key, _ in node.needs]
        tokens = (
            mine if mine and mine.owner == node.name else got
            for mine, got in zip(own, view, strict=True)
        )
        return tuple(token and token.serial for token in tokens)

    # ---- how it changes

    def put(self, node: Node) -> "World":
        return replace(self, nodes={**self.nodes, node.name: node})

    def push(self, node: Node, item: Item, **changes: object) -> "World":
        return self.put(replace(node, stack=(*node.stack, item), **changes))  # type: ignore[arg-type]  # fields

    def bind(self, slot: Slot, token: Token) -> "World":
        return replace(self, bindings={**self.bindings, slot: token}).remember()

    def remember(self) -> "World":
        """Keeps in mind who, by itself or by a descendant, has provided or declared what."""
        given = set(self.given)
        held = [(self.nodes[token.owner], slot) for slot, token in self.bindings.items()]
        held += [(node, slot) for node in self.nodes.values() for slot in node.promised]
        for owner, slot in held:
            given |= {(node.name, slot) for node in (owner, *self.ancestors(owner)) if node.parent}
        return replace(self, given=frozenset(given))

    def unbind(self, token: object) -> "World":
        rest = {slot: other for slot, other in self.bindings.items() if other != token}
        return replace(self, bindings=rest)

    def listen(self, heard: Heard, *, prepend: bool = False) -> "World":
        order = (heard, *self.listeners) if prepend else (*self.listeners, heard)
        return replace(self, listeners=order)

    def unlisten(self, name: object) -> "World":
        return replace(self, listeners=tuple(one for one in self.listeners if one.name != name))

    def normal(self) -> "World":
        """Does what no line tells of: withdrawals, and the end of an unload before a load."""
        for node in self.nodes.values():
            if node.state != UNLOADING or node.busy or not self.drained(node):
                continue
            if node.stack and node.stack[-1][0] == "bind":
                rest = replace(node, stack=node.stack[:-1])
                return self.unbind(node.stack[-1][1]).put(rest).normal()
            left = replace(node, committed=None)
            if node.committed and not node.stack and self.target(left) is not None:
                return self.put(left).normal()
        return self

    def remove(self, node: Node) -> "World":
        """A disposed node is gone, also from its parent's stack."""
        nodes = {name: other for name, other in self.nodes.items() if name != node.name}
        if node.parent:
            nodes[node.parent] = nodes[node.parent].without(("child", node.name))
        given = frozenset(one for one in self.given if one[0] != node.name)
        return replace(self, nodes=nodes, given=given)

    def chain(self, subject: object) -> set[str | None]:
        """The scopes whose listeners hear of a subject; `None` stands for unscoped ones."""
        node = self.nodes.get(str(subject))
        heard: set[str | None] = {None}
        while node is not None and node.scope is not None:
            heard.add(node.scope)
            node = self.nodes[self.nodes[node.scope].parent]
        return heard

    # ---- the rules

    def moves(self) -> Iterator[tuple[Line, "World"]]:
        """Every line that may come next by the container's own doing."""
        for node in self.nodes.values():
            for line, world in self.moves_of(node):
                yield line, world.normal()

    def moves_of(self, node: Node) -> Iterator[tuple[Line, "World"]]:
        match node.state:
            case "PENDING" | "FAILED":
                yield from self._begin(node)
            case "LOADING":
                yield from self._step(node)
                yield from self._finish(node)
            case "ACTIVE" if self.target(node) != node.committed or self.may_be_doomed(node):
                yield self._to(node, UNLOADING)
            case "UNLOADING" if self.drained(node):
                yield from self._undo(node)
        if node.state in (LOADING, ACTIVE, UNLOADING):
            yield from self._crash(node)

    def may_be_doomed(self, node: Node) -> bool:
        return bool(node.parent) and self.doomed(node)

    def _to(self, node: Node, state: str) -> tuple[Line, "World"]:
        return Line(state, node.name), self.put(replace(node, state=state))

    def _begin(self, node: Node) -> Iterator[tuple[Line, "World"]]:
        target = self.target(node)
        if node.retired or self.may_be_doomed(node):
            if node.stack:
                yield self._to(node, UNLOADING)
            else:
                yield Line(DISPOSED, node.name), self.remove(node)
        if target is not None:
            is_service = node.recipe is not None and node.recipe.service is not None
            loading = replace(
                node,
                state=LOADING,
                committed=target,
                body="runs",
                done=-1 if is_service else 0,  # a service is made first
                episode=node.episode + 1,
                used_level=node.level,
            )
            assert node.recipe is not None
            if node.recipe.yields and node.recipe.tail and not node.recipe.service:
                loading = replace(loading, stack=(*node.stack, ("tail", None)))
            yield Line(LOADING, node.name), self.put(loading)
        elif node.state == FAILED and node.failed != node.generation:
            yield self._to(node, PENDING)
        elif node.state == PENDING and node.failed == node.generation and not node.retired:
            yield self._to(node, FAILED)

    def _step(self, node: Node) -> Iterator[tuple[Line, "World"]]:
        recipe = node.recipe
        if recipe is None or node.body != "runs":
            return
        if recipe.service and node.done < 0:
            yield self._construct(replace(node, done=0), node.slot(recipe.service))
            return
        if (recipe.is_async and self.target(node) != node.committed) or self.may_be_doomed(node):
            yield Line("cancelled", node.name), self.put(_ended(node, "cancelled"))
        if node.done < len(recipe.steps):
            yield from self._apply(node, node.done)
            return
        yield Line("up", node.name), self.put(replace(node, body="up"))

    def _construct(self, node: Node, slot: Slot) -> tuple[Line, "World"]:
        line = Line("apply", node.name, "service", self.seen(node))
        if slot in self.bindings:
            return line, self.put(_ended(node, "raised"))
        assert node.recipe is not None
        token = Token(node.name, f"{node.name}#{node.episode}")
        tail: tuple[Item, ...] = (("tail", None),) if _has_tail(node.recipe) else ()
        made = replace(node, stack=(*node.stack, ("bind", token), *tail))
        return line, self.bind(slot, token).put(made)

    def _apply(self, node: Node, k: int) -> Iterator[tuple[Line, "World"]]:
        assert node.recipe is not None
        step, slot = node.recipe.steps[k], node.slot(node.recipe.steps[k].key)
        name = f"{node.name}#{node.episode}.{k}"
        raised = Line("raise", node.name, k), self.put(_ended(node, "raised"))
        line = Line("apply", node.name, k, self.seen(node))
        after = replace(node, done=k + 1)
        match step.kind:
            case "raise":
                fails = not step.picky or node.used_level % 2
                yield raised if fails else (line, self.put(after))
            case "provide":
                if slot in self.bindings or self.conflicts((slot,), surely=False, but=node.name):
                    yield raised
                if slot not in self.bindings:
                    token = Token(node.name, name)
                    yield line, self.bind(slot, token).push(after, ("bind", token))
            case "child":
                yield (line, self.put(after)) if ("child", name) in node.stack else raised
            case "listener":
                world = self.listen(Heard(node.name, name, node.scope))
                yield line, world.push(after, ("step", k))
            case _:
                yield line, self.push(after, ("step", k))

    def _finish(self, node: Node) -> Iterator[tuple[Line, "World"]]:
        if node.body == "runs":
            return
        made = {key for (key, _), token in self.bindings.items() if token.owner == node.name}
        short = any(key not in made for key, _ in node.promised)
        if node.body == "raised" or (node.body == "up" and short and not node.retired):
            node = _failed(node)
        if node.body == "up" and node.recipe and node.recipe.tail and not node.recipe.yields:
            node = replace(node, stack=(*node.stack, ("tail", None)))  # what it returned
        if node.body == "up" and self.target(node) == node.committed:
            yield self._to(node, ACTIVE)
        if self.target(node) != node.committed or self.may_be_doomed(node):
            yield self._to(node, UNLOADING)

    def _undo(self, node: Node) -> Iterator[tuple[Line, "World"]]:
        if node.busy is not None:
            world = self.unlisten(_listener_name(node, node.busy))
            rest = replace(node.without(node.busy), busy=None)
            yield Line("undone", node.name, node.busy[1]), world.put(rest)
        elif not node.stack:
            yield from self._leave(node)
        elif (item := node.stack[-1])[0] != "child":
            undo = Line("undo", node.name, item[1], self.seen(node))
            yield undo, self.put(replace(node, busy=item))

    def _leave(self, node: Node) -> Iterator[tuple[Line, "World"]]:
        node = replace(node, committed=None)
        if node.retired or self.may_be_doomed(node):
            yield Line(DISPOSED, node.name), self.remove(node)
        if node.retired:
            return
        if node.failed == node.generation:
            yield self._to(node, FAILED)
        elif self.put(node).target(node) is None:
            yield self._to(node, PENDING)
        else:
            yield from self.put(node)._begin(node)

    def _crash(self, node: Node) -> Iterator[tuple[Line, "World"]]:
        for kind, k in node.stack:
            if kind == "step" and isinstance(k, int) and node.busy != (kind, k):
                assert node.recipe is not None
                if node.recipe.steps[k].kind == "crash":
                    rest = node.without((kind, k))
                    fails = node.state in (LOADING, ACTIVE)
                    yield Line("crash", node.name, k), self.put(_failed(rest) if fails else rest)

    # ---- what comes from outside

    def accept(self, line: Line) -> "World | None":
        """Returns the world after an input, or `None` if the container should not have done so."""
        world = self._accept(line)
        return world and world.normal()

    def _accept(self, line: Line) -> "World | None":
        node = self.nodes.get(line.fiber)
        match line.what, line.detail:
            case "mounted", Mount() as mount:
                return self._mounted(mount)
            case "refused", Mount() as mount:
                parent = self.nodes.get(mount.parent)
                new = _node(mount, parent or ROOT, 0)
                may = parent is None or not self.admits(parent) or self.may_be_doomed(parent)
                return self if may or self.conflicts(new.promised, surely=False) else None
            case "refused", _:
                gone = node is None or node.retired or not self.admits(node)
                return self if gone or (node and self.may_be_doomed(node)) else None
            case "emitted", (subject, calls):
                return self if calls == tuple(self._called(subject)) else None
            case (("retire" | "taken"), _) if node is None:
                return self
            case "closed", name:
                return self._closed(str(name))
            case "moved", frozenset() as keys:
                return self._moved(line.fiber, keys)
            case "not moved", frozenset() as keys:
                return self if self._moved(line.fiber, keys) is None else None
        return None if node is None else self._asked(node, line)

    def _asked(self, node: Node, line: Line) -> "World | None":
        match line.what, line.detail:
            case "retire", _:
                return self.put(replace(node, retired=True))
            case "restart", _ if not node.retired:
                raised = node.generation + (node.level >= 0)  # else there is nothing to run with
                return self.put(replace(node, generation=raised))
            case "update", int() as level if not node.retired:
                return self._updated(node, level)
            case "provided", (str() as name, str() as key, bool() as isolated):
                slot, token = node.slot(key, isolated=isolated), Token(node.name, name, isolated)
                free = slot not in self.bindings and self.admits(node)
                return self.bind(slot, token).push(node, ("bind", token)) if free else None
            case "taken", (str() as key, bool() as isolated):
                slot = node.slot(key, isolated=isolated)
                taken = self.conflicts((slot,), surely=False, but=node.name)
                return self if slot in self.bindings or taken else None
            case "replaced", (str() as name, str() as serial):
                return self._replaced(node, name, serial)
            case "listened", (str() as name, bool() as prepend, bool() as unscoped):
                heard = Heard(node.name, name, None if unscoped else node.scope)
                world = self.listen(heard, prepend=prepend)
                return world.push(node, ("heard", name)) if self.admits(node) else None
        return None

    def _mounted(self, mount: Mount) -> "World | None":
        parent = self.nodes.get(mount.parent)
        if parent is None or not self.admits(parent):
            return None
        node = _node(mount, parent, self.mounted + 1)
        if self.conflicts(node.promised, surely=True):
            return None
        world = replace(self, mounted=node.order).put(node).remember()
        return world.push(parent, ("child", node.name))

    def _updated(self, node: Node, level: int) -> "World":
        runs = node.state in (LOADING, ACTIVE) and node.failed != node.generation
        if runs and level == node.level:
            return self
        assert node.recipe is not None
        raised = 0 if runs and node.state == ACTIVE and node.recipe.in_place else 1
        return self.put(replace(node, level=level, generation=node.generation + raised))

    def _closed(self, name: str) -> "World":
        """The handle of a provision or listener was closed; it may be undone already."""
        for node in self.nodes.values():
            for item in node.stack:
                if item == ("heard", name) and item != node.busy:
                    return self.unlisten(name).put(node.without(item))
                if isinstance(item[1], Token) and _handle(item[1]) == name:
                    return self.unbind(item[1]).put(node.without(item))
        return self

    def _replaced(self, node: Node, name: str, serial: str) -> "World | None":
        for slot, token in self.bindings.items():
            if _handle(token) == name:
                new = token._replace(serial=serial)
                stack = tuple(("bind", new) if item[1] == token else item for item in node.stack)
                return self.bind(slot, new).put(replace(node, stack=stack))
        return None

    def _moved(self, name: str, keys: frozenset[str]) -> "World | None":
        """The view that a node was mounted through has other realms; objects go along."""
        if name not in self.nodes:
            return self
        nodes = dict(self.nodes)
        nodes[name] = replace(nodes[name], own_isolated=keys)
        for node in nodes.values():  # parents come before children
            if node.parent:
                isolated = nodes[node.parent].isolated | node.own_isolated
                nodes[node.name] = replace(node, isolated=isolated)
        bindings: dict[Slot, Token] = {}
        for (key, _), token in self.bindings.items():
            slot = nodes[token.owner].slot(key, isolated=token.isolated)
            if bindings.setdefault(slot, token) is not token:
                return None
        return replace(self, nodes=nodes, bindings=bindings).remember()

    def _called(self, subject: object) -> Iterator[str]:
        chain = self.chain(subject)
        for owner, name, scope in self.listeners:
            if scope in chain and self.nodes[owner].state in (PENDING, LOADING, ACTIVE):
                yield name


def _node(mount: Mount, parent: Node, order: int) -> Node:
    return Node(
        mount.name,
        mount.parent,
        recipe=mount.recipe,
        scope=mount.name if mount.recipe is None else parent.scope,
        own_isolated=mount.isolated,
        isolated=parent.isolated | mount.isolated,
        level=mount.level,
        order=order,
        **({"state": ACTIVE, "committed": (0, ())} if mount.recipe is None else {}),  # type: ignore[arg-type]  # fields
        failed=0 if mount.level < 0 else -1,
    )


def _has_tail(recipe: Recipe) -> bool:
    return recipe.yields and recipe.tail is not None


def _handle(token: Token) -> str:
    """The name of the `Provide` that made it."""
    return token.serial.partition("+")[0]


def _failed(node: Node) -> Node:
    assert node.committed is not None
    return replace(node, failed=node.committed[0])


def _ended(node: Node, how: str) -> Node:
    """The body raised or was cancelled; the code after its `yield` will never run."""
    return replace(node, body=how).without(("tail", None))


def _listener_name(node: Node, item: Item) -> object:
    return f"{node.name}#{node.episode}.{item[1]}" if item[0] == "step" else item[1]
