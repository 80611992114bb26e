"""Errors of the system prompt."""

from collections.abc import Iterable

from terret_llm import HarnessError


class PromptAssemblyError(HarnessError):
    """The system prompt could not be put together; `contributor` says because of what."""

    def __init__(self, contributor: str, problem: str) -> None:
        super().__init__(f"system prompt: {contributor} {problem}", "PROMPT_ASSEMBLY")
        self.contributor = contributor


class PromptReferenceError(HarnessError):
    """A text refers to a variable that has no value here, or is malformed."""

    def __init__(self, where: str, reference: str, problem: str, known: Iterable[str]) -> None:
        self.where = where
        self.reference = reference
        self.known = tuple(sorted(known))
        names = ", ".join(self.known) or "(none)"
        super().__init__(
            f"{where}: {{{{{reference}}}}} {problem}; variables: {names}", "PROMPT_REFERENCE"
        )
