from collections.abc import Iterator

_OPEN = "<think>"
_CLOSE = "</think>"


class ThinkSplitter:
    """Separates `<think>…</think>` from the text around it, however the tags are cut."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, text: str) -> Iterator[tuple[bool, str]]:
        """Pieces of `text` as (is reasoning, text); what may be the start of a tag is held back."""
        text = self._held + text
        while True:
            tag = _CLOSE if self._inside else _OPEN
            before, found, after = text.partition(tag)
            if not found:
                break
            if before:
                yield self._inside, before
            self._inside = not self._inside
            text = after
        held = next(n for n in range(len(tag) - 1, -1, -1) if text.endswith(tag[:n]))
        ready, self._held = text[: len(text) - held], text[len(text) - held :]
        if ready:
            yield self._inside, ready

    def close(self) -> Iterator[tuple[bool, str]]:
        """The text that was held back."""
        held, self._held = self._held, ""
        if held:
            yield self._inside, held
