"""What was asked of `terret run`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._agents import choose
from ._asking import OnAsk
from ._errors import CommandError
from ._lines import Lines
from ._options import Address


@dataclass(frozen=True, kw_only=True)
class Request:
    """The command line, as it was typed."""

    words: Sequence[str] = ()
    text: str | None = None
    address: Address = field(default_factory=Address)
    on_ask: OnAsk | None = None
    rows: bool = False

    def check(self) -> None:
        """Refuses what is no message whatever agents there are."""
        if self.text is None and not self.words:
            raise CommandError('there is no message; give one, as in: terret run "What is 2 + 2?"')
        _refuse_blank(" ".join(self.words) if self.text is None else self.text)

    async def read(self, names: Sequence[str]) -> tuple[str, str]:
        """Returns the agent and the message. Raises `CommandError` if one of them is unclear."""
        words = list(self.words)
        name = self.address.agent
        if name is None and words and words[0] in names and (words[1:] or self.text is not None):
            name = words.pop(0)
        if self.text is not None and words:
            raise CommandError("give the message either as words or with --input, not both")
        name = choose(name, names)
        if self.text is not None:
            return name, self.text
        message = await _stdin() if words == ["-"] else " ".join(words)
        _refuse_blank(message)
        return name, message


async def _stdin() -> str:
    try:
        return await Lines(sys.stdin, errors="strict").read_all()
    except UnicodeDecodeError:
        raise CommandError("standard input is not UTF-8 text") from None


def _refuse_blank(message: str) -> None:
    if not message.strip():
        raise CommandError("the message is blank")
