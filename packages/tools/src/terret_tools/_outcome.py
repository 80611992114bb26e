"""The outcome of a call."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from terret_llm import Block, HarnessError, Message, TextBlock, error_chain, replace_surrogates
from terret_sessions import ErrorInfo

from ._errors import ABORTED_BEFORE_DISPATCH


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """Why a call failed; `info` is what the log keeps of it."""

    message: str
    info: ErrorInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What became of a call; made by `success` and `failure`.

    `content` goes to the model and to the log, `value` is for code only. The messages of
    `additional_contexts` follow the results of the step.
    """

    content: tuple[Block, ...] = ()
    value: object = None
    error: ToolFailure | None = None
    additional_contexts: tuple[Message, ...] = ()
    concludes_turn: bool = False

    @property
    def is_error(self) -> bool:
        return self.error is not None

    @property
    def code(self) -> str | None:
        """The code of a failure that has one."""
        return self.error.info.code if self.error and self.error.info else None

    @property
    def text(self) -> str:
        """The text blocks of the content, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


def success(
    content: str | Iterable[Block] = (),
    *,
    value: object = None,
    contexts: Iterable[Message] = (),
    concludes_turn: bool = False,
) -> ToolOutcome:
    """Makes the outcome of a call that succeeded.

    With a value and without content, a tool with an output declaration renders the value.
    """
    return ToolOutcome(
        content=as_blocks(content),
        value=value,
        additional_contexts=tuple(contexts),
        concludes_turn=concludes_turn,
    )


def failure(
    message: str,
    *,
    code: str = "",
    name: str = "ToolError",
    data: Mapping[str, object] | None = None,
    content: Iterable[Block] = (),
    contexts: Iterable[Message] = (),
) -> ToolOutcome:
    """Makes the outcome of a call that failed; the model reads "Error: <message>"."""
    message = replace_surrogates(message)
    return ToolOutcome(
        content=as_blocks(content) or (TextBlock(f"Error: {message}"),),
        error=ToolFailure(message, ErrorInfo(name, code, data) if code else None),
        additional_contexts=tuple(contexts),
    )


def failure_from(error: BaseException, *, contexts: Iterable[Message] = ()) -> ToolOutcome:
    """Makes the outcome of a call that raised; only a `HarnessError` has a code."""
    code = error.code if isinstance(error, HarnessError) else ""
    return failure(error_chain(error), code=code, name=type(error).__name__, contexts=contexts)


def aborted_before_dispatch() -> ToolOutcome:
    """Makes the outcome of a call that was cancelled before its body started."""
    return failure("the turn was cancelled before the call ran", code=ABORTED_BEFORE_DISPATCH)


def as_blocks(content: object) -> tuple[Block, ...]:
    """Returns content as blocks; raises `TypeError` for what is neither text nor blocks."""
    if isinstance(content, str):
        return (TextBlock(replace_surrogates(content)),)
    if isinstance(content, Iterable) and not isinstance(content, bytes | Mapping):
        return tuple([_block(each) for each in content])
    raise TypeError(f"{_shown(content)} is neither text nor content blocks")


def _block(block: object) -> Block:
    if isinstance(block, TextBlock):
        text = replace_surrogates(block.text)
        return block if text is block.text else TextBlock(text)
    if isinstance(block, Block):
        return block
    raise TypeError(f"{_shown(block)} is no content block")


def _shown(value: object) -> str:
    return f"a value of type {type(value).__name__}"
