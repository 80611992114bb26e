"""One model call in a turn: its compactions, its text, and the chains of its tool calls."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Wire: TypeAlias = Mapping[str, Any]

_MAX_COMPACTIONS: Final = 3
_HUMAN_DENIED: Final = " - human denied"


class _Open(NamedTuple):
    """An approval that waits. `nested` is unknown where a call of a running body may be meant."""

    tool: str
    nested: bool | None


class Batch:
    """Takes the events between one `budget:check` and the next; raises `ValueError`.

    Attributes:
        denied: the names of denied calls, in order.
        denied_by_human: whether a person denied one of them.
    """

    def __init__(self, agent: str | None, pending: set[str]) -> None:
        self.denied: list[str] = []
        self.denied_by_human = False
        self._agent = agent
        self._pending = pending
        self._compactions = 0
        self._has_text = False
        self._has_chains = False
        self._first: Wire | None = None  # of a pair that must not be separated
        self._decision: Wire | None = None  # which may be the first of a pair
        self._running: dict[str, Wire] = {}
        self._just_started: str | None = None
        self._ids: set[str] = set()
        self._open: _Open | None = None
        self._skipping = False

    def take(self, event: Wire) -> None:
        """Takes the next event."""
        if self._decision is not None:
            decision, self._decision = self._decision, None
            if _is_partner(decision, event):
                return self._decide(decision, event)
            self._resolve_nested(decision)
        if self._first is not None:
            first, self._first = self._first, None
            return self._second(first, event)
        just_started, self._just_started = self._just_started, None
        match event["type"]:
            case "prompt:compaction":
                self._compact(event)
            case "assistant:text":
                self._speak(event)
            case kind:
                self._has_chains = True
                self._chain(kind, event, just_started)
        return None

    def cut(self) -> None:
        """An error ends the turn here."""
        if self._decision is not None:
            self._resolve_nested(self._decision)
        require(self._first is None, "the event before belongs to a pair")

    def end(self) -> None:
        """Nothing more belongs to this call."""
        self.cut()
        require(not self._running, f"calls are running: {', '.join(self._running)}")
        require(self._open is None, "an approval is open")

    def _compact(self, event: Wire) -> None:
        silent = not (self._has_text or self._has_chains)
        require(silent, "a compaction comes before the response")
        self._compactions += 1
        require(self._compactions <= _MAX_COMPACTIONS, "at most three compactions for a call")
        require(event["to"] <= event["from"], "a compaction shortens")

    def _speak(self, event: Wire) -> None:
        require(not self._has_text, "one text for a call")
        require(not self._has_chains, "the text comes before the decisions")
        require(bool(event["text"]), "the text is not empty")
        self._has_text = True

    def _chain(self, kind: str, event: Wire, just_started: str | None) -> None:
        match kind:
            case "actauth:decision":
                require(event["decision"] in ("allow", "deny"), "a decision allows or denies")
                self._decision = event
            case "approval:pending":
                self._ask(event)
            case "question:pending":
                self._new_item(event)
                require(bool(self._running), "a question comes from a running call")
            case "toollane:result" | "loop:skipped":
                self._first = event
                self._just_started = just_started
            case "tool:result":
                require(event["statusText"] == "Cancelled.", "the first of its pair is missing")
                self._finish(event, just_started)
            case "skill:loaded":
                pass
            case _:
                raise ValueError("it has no place in a batch of calls")

    def _ask(self, event: Wire) -> None:
        self._new_item(event)
        below = self._agent is not None and event["scope"]["agent"] != self._agent
        nested = True if below else None if self._running else False
        require(nested is not True or bool(self._running), "nothing runs that could ask")
        require(nested is not False or not self._skipping, "the turn is stopping")
        self._open = _Open(event["tool"], nested)

    def _new_item(self, event: Wire) -> None:
        require(self._open is None, "one item is open already")
        fresh = event["id"] not in self._pending | self._ids
        require(fresh, "the id of an item is used once and by no call")
        self._pending.add(event["id"])

    def _decide(self, decision: Wire, event: Wire) -> None:
        tool, waiting = decision["tool"], self._open
        require(not self._skipping, "the turn is stopping")
        if waiting is not None and not waiting.nested:
            same = waiting.tool == tool
            require(same or waiting.nested is None, f"{waiting.tool} waits for its decision")
            self._open = None if same else waiting
        self._use_id(event)
        if decision["decision"] == "allow":
            self._running[event["id"]] = event
            self._just_started = event["id"]
        else:
            self.denied.append(tool)
            self.denied_by_human |= decision["reason"].endswith(_HUMAN_DENIED)

    def _resolve_nested(self, decision: Wire) -> None:
        waiting = self._open
        partner = "tool:started" if decision["decision"] == "allow" else "tool:result Denied."
        nested = waiting is not None and waiting.nested is not False and bool(self._running)
        require(nested, f"a decision is followed by its {partner}")
        assert waiting is not None
        require(waiting.tool == decision["tool"], f"{waiting.tool} waits for its decision")
        self._open = None

    def _second(self, first: Wire, event: Wire) -> None:
        require(event["type"] == "tool:result", f"{first['type']} is followed by its tool:result")
        require(event["tool"] == first["name"], f"the result of {first['name']} comes here")
        status = event["statusText"]
        just_started, self._just_started = self._just_started, None
        if first["type"] == "toollane:result":
            failed = first["summary"].startswith("ERROR: ")
            expected = "Error." if failed else "Approved."
            require(status == expected, f"the status is {expected}")
            self._finish(event, just_started)
            return
        require(status == "Skipped.", "the status is Skipped.")
        names = first["deniedTools"]
        selected = bool(names) and is_selection(names, self.denied)
        require(selected, "it names denied calls in order")
        self._skipping = self.denied_by_human = True
        if self._running.pop(event["id"], None) is None:
            self._use_id(event)

    def _finish(self, event: Wire, just_started: str | None) -> None:
        id = event["id"]
        require(id in self._running, f"{id} does not run")
        in_order = id in (next(iter(self._running)), just_started)
        require(in_order, "results come in the order of the calls")
        started = self._running.pop(id)
        require(event["tool"] == started["tool"], f"{id} is a call of {started['tool']}")
        require(event.get("args", started["args"]) == started["args"], "the arguments differ")

    def _use_id(self, event: Wire) -> None:
        require(event["id"] not in self._ids | self._pending, "a call id is used once in a batch")
        self._ids.add(event["id"])


def _is_partner(decision: Wire, event: Wire) -> bool:
    if event["type"] == "tool:started":
        allowed = decision["decision"] == "allow"
        texts = event["detailText"] == decision["reason"]
        return allowed and texts and bool(event["tool"] == decision["tool"])
    if event["type"] == "tool:result" and event["statusText"] == "Denied.":
        return bool(decision["decision"] == "deny" and event["tool"] == decision["tool"])
    return False


def require(holds: bool, problem: str) -> None:
    """Raises `ValueError` unless that holds."""
    if not holds:
        raise ValueError(problem)


def is_selection(names: Iterable[str], of: Iterable[str]) -> bool:
    """Whether names are a selection of others, in their order."""
    rest = iter(of)
    return all(name in rest for name in names)
