"""Scripts: what a property test does to a container, and the synthetic plugins that it mounts."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

KEYS = ("a", "b", "c", "d", "e")

Form: TypeAlias = Literal["plain", "generator", "async", "async generator"]
Undo: TypeAlias = Literal["plain", "raises", "sleeps", "hangs"]
Kind: TypeAlias = Literal["effect", "listener", "provide", "child", "task", "crash", "raise"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a body: it may sleep, and then registers something or raises.

    A step that is `picky` raises only if the level in its configuration is odd.
    """

    kind: Kind
    undo: Undo = "plain"
    sleep: int = 0
    key: str = ""
    child: "Recipe | None" = None
    picky: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """A synthetic plugin; with `service` it is a `Service` whose `init` has the steps.

    `tail` is the code after the `yield`, or the undo function that a body without one returns.
    """

    form: Form = "plain"
    steps: tuple[Step, ...] = ()
    tail: Undo | None = None
    service: str | None = None
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    in_place: bool = False

    @property
    def is_async(self) -> bool:
        return self.form.startswith("async")

    @property
    def yields(self) -> bool:
        return self.form.endswith("generator")

    @property
    def needs(self) -> tuple[tuple[str, bool], ...]:
        optional = (key for key in self.optional if key not in self.required)
        return (*((key, True) for key in self.required), *((key, False) for key in optional))

    @property
    def promised(self) -> tuple[str, ...]:
        """The keys that it has to provide."""
        own = (self.service,) if self.service else ()
        return (*own, *(key for key in self.declares if key not in own))

    @property
    def size(self) -> int:
        """How many fibers one instance is at most."""
        return 1 + sum(step.child.size for step in self.steps if step.child)


# ---- what a script does; fibers and scopes are named, "root" is the container itself


@dataclass(frozen=True, slots=True)
class Mount:
    """Mounts a plugin below a fiber, in a view isolated for some keys (all share one realm)."""

    name: str
    recipe: Recipe | None  # None: a scope
    parent: str = "root"
    isolated: frozenset[str] = frozenset()
    level: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """Gives the view that a fiber was mounted through other keys to be isolated for."""

    fiber: str
    isolated: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks something of a fiber; whoever asked waits in a task of its own."""

    what: Literal["retire", "dispose", "check", "restart", "update", "ready", "settled"]
    fiber: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class CancelWaiter:
    """Cancels the task of the `index`-th `Ask`."""

    index: int


@dataclass(frozen=True, slots=True)
class Provide:
    """Provides a key through the context of a fiber, or of its view isolated for that key."""

    name: str
    key: str
    owner: str = "root"
    isolated: bool = False


@dataclass(frozen=True, slots=True)
class Listen:
    """Registers a listener through the context of a fiber."""

    name: str
    owner: str = "root"
    prepend: bool = False
    unscoped: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """Closes the handle of a `Provide` or `Listen`."""

    name: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Replaces the object of a `Provide`."""

    name: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Dispatches an event, with a scope as subject or without one."""

    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """Lets the event loop go round, or the virtual clock go on."""

    rounds: int = 1
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class Settle:
    """Waits until no fiber has work left."""


Op: TypeAlias = (
    Mount | Move | Ask | CancelWaiter | Provide | Listen | Close | Replace | Emit | Turn | Settle
)
Ending: TypeAlias = Literal["unload", "exit", "cancel"]
