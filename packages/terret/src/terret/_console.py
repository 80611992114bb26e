"""Approvals and questions, asked on a terminal one after the other."""

import json
import textwrap
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import anyio

from terret_agents import QuestionAnswer
from terret_context import TerretError
from terret_tools import ApprovalDecision

from ._services import ApprovalItem, Approvals, QuestionItem
from ._terminal import Asker

_MOST_LINES = 30
_CHANGE = "Change which? NAME=VALUE, or all as {...}; Enter for none: "


class Console:
    """Asks whoever sits at a terminal; what they decide is theirs, by their name."""

    def __init__(self, asker: Asker, approvals: Approvals | None, user: str) -> None:
        self._asker = asker
        self._approvals = approvals
        self._user = user
        self._turn = anyio.Lock()

    async def decide(self, item: ApprovalItem) -> ApprovalDecision | None:
        """Asks whether a call may run, until that is clear; `None` if nobody can be asked."""
        async with self._attention():
            return await self._decide(item)

    async def answer(self, item: QuestionItem) -> QuestionAnswer | None:
        """Asks a question of the model; a number stands for the option of that number."""
        async with self._attention():
            return await self._answer(item)

    @asynccontextmanager
    async def _attention(self) -> AsyncIterator[None]:
        async with self._turn:
            try:
                yield
            except anyio.get_cancelled_exc_class():
                self._asker.write("\n")  # a prompt stands there without an answer
                raise

    async def _decide(self, item: ApprovalItem) -> ApprovalDecision | None:
        given = item.call.plain_arguments()
        arguments, is_edited, limit = given, False, _MOST_LINES
        choices = "y/n/a/e" if item.editable else "y/n/a"
        self._show_call(item, arguments, limit)
        while True:
            line = await self._asker.ask(f"Run it? [{choices}, ? explains] ")
            if line is None:
                return None
            word, _, rest = line.strip().partition(" ")
            match word.lower():
                case "y" | "yes" | "a" | "always":
                    edit = arguments if is_edited and isinstance(arguments, dict) else None
                    remember = word.lower().startswith("a")
                    return ApprovalDecision(allow=True, args=edit, by=self._user, remember=remember)
                case "n" | "no":
                    return ApprovalDecision(allow=False, note=rest or None, by=self._user)
                case "e" | "edit" if item.editable:
                    changed = await self._edit(item, arguments)
                    if changed is not None:
                        arguments, is_edited = changed, True
                        self._show_call(item, arguments, limit)
                case "v" | "view":
                    self._show_call(item, arguments, None)
                case _:
                    self._explain(item)

    async def _edit(self, item: ApprovalItem, arguments: object) -> Mapping[str, object] | None:
        line = await self._asker.ask(_CHANGE)
        if line is None or not line.strip():
            return None
        try:
            changed = edited(arguments, line.strip())
            if self._approvals is not None:
                await self._approvals.check(item, ApprovalDecision(allow=True, args=changed))
        except (ValueError, TerretError) as error:
            self._asker.write(f"Not possible: {error}\n")
            return None
        return changed

    async def _answer(self, item: QuestionItem) -> QuestionAnswer | None:
        self._asker.write(f"\n{item.agent.name} asks: {item.question}\n")
        options = item.options or ()
        for number, option in enumerate(options, 1):
            self._asker.write(f"  {number}  {option}\n")
        prompt = "Number or answer: " if options else "Answer: "
        while (line := await self._asker.ask(prompt)) is not None:
            text = line.strip()
            if text.isdecimal() and 0 < int(text) <= len(options):
                text = options[int(text) - 1]
            if text:
                return QuestionAnswer(text, by=self._user)
        return None

    def _show_call(self, item: ApprovalItem, arguments: object, limit: int | None) -> None:
        lines = list(described(arguments, self._asker.width))
        hidden = 0 if limit is None else max(0, len(lines) - limit)
        if hidden > 1:
            lines = [*lines[:limit], f"    ... {hidden} more lines: v shows them"]
        reason = f" ({item.reason})" if item.reason else ""
        head = f"{item.agent.name} wants to run {item.call.name}{reason}"
        self._asker.write("\n".join(["", head, *lines, ""]))

    def _explain(self, item: ApprovalItem) -> None:
        rows = [
            "  y  run this call",
            "  n  do not run it and end the turn; `n TEXT` tells the model why",
            "  a  run it, and let the same call run from now on in this session",
            "  v  show all of its arguments",
        ]
        if item.editable:
            rows.append("  e  change its arguments first")
        self._asker.write("\n".join([*rows, ""]))


def described(arguments: object, width: int) -> Iterator[str]:
    """Yields the arguments of a call, whole, in lines that fit."""
    named = arguments if isinstance(arguments, Mapping) else {"": arguments}
    space = max((len(name) for name in named), default=0)
    for name, value in named.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        label = f"    {name:<{space}}  "
        for number, line in enumerate(_wrapped(text, max(20, width - len(label)))):
            yield f"{label if number == 0 else ' ' * len(label)}{line}"


def _wrapped(text: str, width: int) -> Iterator[str]:
    wrap = textwrap.TextWrapper(
        width=width, expand_tabs=False, replace_whitespace=False, drop_whitespace=False
    ).wrap
    for line in text.split("\n"):
        yield from wrap(line) or [""]


def edited(arguments: object, text: str) -> dict[str, object]:
    """Returns arguments with what a text says: `NAME=VALUE`, or all as a JSON object.

    A value that is no JSON is a text. Raises `ValueError`.
    """
    if text.startswith("{"):
        whole = json.loads(text)
        assert isinstance(whole, dict)
        return whole
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise ValueError("that is neither NAME=VALUE nor a JSON object")
    old = arguments if isinstance(arguments, dict) else {}
    try:
        return {**old, name.strip(): json.loads(value)}
    except ValueError:
        return {**old, name.strip(): value.strip()}
