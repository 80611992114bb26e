"""Who decides about calls and answers questions while a command runs."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from terret_context import Container
from terret_tools import ApprovalDecision

from ._errors import CommandError
from ._services import APPROVALS, QUESTIONS, ApprovalItem
from ._terminal import Asker, open_terminal, standard_terminal

OnAsk: TypeAlias = Literal["prompt", "deny", "allow"]


@contextmanager
def people(root: Container, on_ask: OnAsk | None, own: Asker | None = None) -> Iterator[bool]:
    """Lets the terminal, or what was said before, decide about calls while the block runs.

    `own` is asked if it is a terminal, or if there is none. Gives whether somebody is asked at all.
    """
    approvals, questions = root.get(APPROVALS), root.get(QUESTIONS)
    if approvals is None and on_ask not in (None, "deny"):
        raise CommandError(f"--on-ask {on_ask} needs the plugin approval in harness.yml")
    if approvals is None and questions is None:
        yield False
        return
    with open_terminal() as terminal:
        own = own or standard_terminal()
        asker = own if own.is_terminal or terminal is None else terminal
        on_ask = on_ask or ("prompt" if asker.is_terminal else "deny")
        if on_ask == "prompt":
            from ._console import Console

            console = Console(asker, approvals, user_name())
            if questions is not None:
                questions.channel(console.answer)
            if approvals is not None:
                approvals.approver(console.decide)
        elif approvals is not None:
            decision = ApprovalDecision(
                allow=on_ask == "allow", by=f"{user_name()} (--on-ask {on_ask})"
            )

            async def decide(item: ApprovalItem) -> ApprovalDecision:
                return decision

            approvals.approver(decide)
        yield on_ask == "prompt"


def user_name() -> str:
    """Returns who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a process of nobody in particular
        return "terminal"
