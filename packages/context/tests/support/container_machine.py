"""A state machine of Hypothesis whose rules write scripts; subclasses run and check them."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
)
from hypothesis.strategies import SearchStrategy

from container_scripts import (
    KEYS,
    Ask,
    CancelWaiter,
    Close,
    Emit,
    Ending,
    Form,
    Kind,
    Listen,
    Mount,
    Move,
    Op,
    Provide,
    Recipe,
    Replace,
    Settle,
    Step,
    Turn,
    Undo,
)

MOST_FIBERS, MOST_SCOPES = 8, 3
FORMS: tuple[Form, ...] = ("plain", "generator", "async", "async generator")
UNDOS: tuple[Undo, ...] = ("plain", "raises", "sleeps", "hangs")
KINDS: tuple[Kind, ...] = ("effect", "provide", "listener", "child", "task", "raise", "crash")
TAME: tuple[Kind, ...] = ("effect", "listener", "child", "task")

keys = st.sampled_from(KEYS)
some_keys = st.lists(keys, max_size=2, unique=True).map(tuple)


@st.composite
def recipes(draw: st.DrawFn, *, tame: bool = False, nested: bool = False) -> Recipe:
    """Any synthetic plugin; a tame one neither fails nor provides something by surprise."""
    form = draw(st.sampled_from(FORMS))
    kinds = [kind for kind in (TAME if tame else KINDS) if not (nested and kind == "child")]
    steps = draw(st.lists(_steps(form, kinds, tame=tame), max_size=4))
    provided = sorted({step.key for step in steps if step.kind == "provide"})
    service = None if nested else draw(st.none() | keys.filter(lambda key: key not in provided))
    declared = draw(st.lists(st.sampled_from(provided), unique=True)) if provided else []
    if not tame and not nested and draw(st.integers(0, 9)) == 9:
        declared.append(draw(keys))
    return Recipe(
        form=form,
        steps=tuple(steps),
        tail=draw(st.none() | _undos(form)),
        service=service,
        required=draw(some_keys),
        optional=draw(some_keys),
        declares=tuple(dict.fromkeys(declared)),
        in_place=draw(st.booleans()),
    )


def _undos(form: Form) -> SearchStrategy[Undo]:
    """The code after the `yield` of a plain generator cannot sleep."""
    return st.sampled_from(UNDOS[:2] if form == "generator" else UNDOS)


@st.composite
def _steps(draw: st.DrawFn, form: Form, kinds: list[Kind], *, tame: bool) -> Step:
    kind = draw(st.sampled_from(kinds))
    undos = UNDOS[:3] if kind == "task" else UNDOS
    return Step(
        kind,
        undo=draw(st.sampled_from(undos)) if kind in ("effect", "task") else "plain",
        sleep=draw(st.sampled_from((0, 1, 4))) if form.startswith("async") else 0,
        key=draw(keys) if kind == "provide" else "",
        child=draw(recipes(tame=tame, nested=True)) if kind == "child" else None,
        picky=draw(st.booleans()) if kind == "raise" else False,
    )


class ScriptMachine(RuleBasedStateMachine):
    """Collects operations; `check` gets the whole script when it is complete."""

    tame = False
    fibers: Bundle[str] = Bundle("fibers")
    scopes: Bundle[str] = Bundle("scopes")
    provisions: Bundle[str] = Bundle("provisions")
    listeners: Bundle[str] = Bundle("listeners")

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.seed = 0
        self.backend = "asyncio"
        self.ending: Ending = "unload"
        self.fiber_count = self.scope_count = self.name_count = self.waiter_count = 0

    def check(self) -> None:
        raise NotImplementedError

    def teardown(self) -> None:
        if self.ops:
            self.check()

    def add(self, op: Op) -> None:
        self.ops.append(op)

    def name(self, letter: str) -> str:
        self.name_count += 1
        return f"{letter}{self.name_count}"

    # ---- rules

    @initialize(
        seed=st.integers(0, 2**16),
        backend=st.sampled_from(("asyncio", "trio")),
        ending=st.sampled_from(("unload", "exit", "cancel")),
    )
    def start(self, seed: int, backend: str, ending: Ending) -> None:
        self.seed, self.backend, self.ending = seed, backend, ending

    @precondition(lambda self: self.fiber_count < MOST_FIBERS)
    @rule(
        target=fibers,
        data=st.data(),
        parent=st.just("root") | fibers | scopes,
        isolated=st.frozensets(keys, max_size=2),
        level=st.sampled_from((0, 0, 0, 1, -1)),
    )
    def mount(self, data: Any, parent: str, isolated: frozenset[str], level: int) -> Any:
        room = MOST_FIBERS - self.fiber_count
        recipe = data.draw(recipes(tame=self.tame).filter(lambda recipe: recipe.size <= room))
        name = self.name("f")
        self.fiber_count += recipe.size
        self.add(Mount(name, recipe, parent, isolated, max(level, 0) if self.tame else level))
        children = [k for k, step in enumerate(recipe.steps) if step.child]
        return multiple(name, *(f"{name}#{load}.{k}" for k in children for load in (1, 2)))

    @precondition(lambda self: self.scope_count < MOST_SCOPES)
    @rule(target=scopes, parent=st.just("root") | fibers | scopes)
    def scope(self, parent: str) -> str:
        self.scope_count += 1
        name = self.name("s")
        self.add(Mount(name, None, parent))
        return name

    @rule(
        what=st.sampled_from(("retire", "dispose", "check", "restart", "ready", "settled")),
        fiber=fibers,
    )
    def ask(self, what: Any, fiber: str) -> None:
        self.waiter_count += 1
        self.add(Ask(what, fiber))

    @rule(what=st.sampled_from(("retire", "dispose")), scope=scopes)
    def end_scope(self, what: Any, scope: str) -> None:
        self.waiter_count += 1
        self.add(Ask(what, scope))

    @rule(fiber=fibers | scopes, isolated=st.frozensets(keys, max_size=2))
    def move(self, fiber: str, isolated: frozenset[str]) -> None:
        self.add(Move(fiber, isolated))

    @rule(fiber=fibers, level=st.integers(-1, 2))
    def update(self, fiber: str, level: int) -> None:
        self.waiter_count += 1
        self.add(Ask("update", fiber, max(level, 0) if self.tame else level))

    @precondition(lambda self: self.waiter_count > 0)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        self.add(CancelWaiter(data.draw(st.integers(0, self.waiter_count - 1))))

    @rule(target=provisions, key=keys, owner=st.just("root") | fibers, isolated=st.booleans())
    def provide(self, key: str, owner: str, isolated: bool) -> str:
        name = self.name("p")
        self.add(Provide(name, key, owner, isolated))
        return name

    @rule(name=provisions)
    def replace(self, name: str) -> None:
        self.add(Replace(name))

    @rule(
        target=listeners,
        owner=st.just("root") | fibers | scopes,
        prepend=st.booleans(),
        unscoped=st.booleans(),
    )
    def listen(self, owner: str, prepend: bool, unscoped: bool) -> str:
        name = self.name("l")
        self.add(Listen(name, owner, prepend, unscoped))
        return name

    @rule(name=provisions | listeners)
    def close(self, name: str) -> None:
        self.add(Close(name))

    @rule(subject=st.none() | scopes)
    def emit(self, subject: str | None) -> None:
        self.add(Emit(subject))

    @rule(rounds=st.integers(1, 4))
    def turn(self, rounds: int) -> None:
        self.add(Turn(rounds))

    @rule(seconds=st.sampled_from((0.5, 2.5, 11.5)))
    def wait(self, seconds: float) -> None:
        self.add(Turn(0, seconds))

    @rule()
    def settle(self) -> None:
        self.add(Settle())
