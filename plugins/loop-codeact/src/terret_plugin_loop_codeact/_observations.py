"""What the model is told about its programs.

Results of tools are in the log like those of any loop. The model of this loop knows no tool
calls, so on the surface one message takes their place: the output of the program.
"""

from collections.abc import Sequence
from typing import Final

from terret_llm import PluginSource, create_user_message, replace_surrogates
from terret_sessions import AssistantMessage, Replace, Session, Sources, ToolResult

SOURCE: Final = PluginSource("loop-codeact")


def observe(session: Session, text: str, results: Sequence[int] = ()) -> None:
    """Logs what became of a program; `results` are the seqs of the results of its calls."""
    message = create_user_message(replace_surrogates(text), SOURCE)
    if not results:
        session.append("user/message", message, surface_op="append")
        return
    replaced = Replace(results[0], results[-1])
    sources = Sources([*results])
    session.append("user/message", message, surface_op=replaced, sources=sources)


def has_observed(session: Session) -> bool:
    """Tells whether a program has run in a session, as far as its model remembers."""
    return any(message.source == SOURCE for message in session.derive_messages())


def observe_lost(session: Session) -> None:
    """Tells of the calls of a program that a crash left without a word, if there are any."""
    lost: list[ToolResult] = []
    seqs: list[int] = []
    for seq in reversed(session.surface.seqs):
        payload = session.events[seq].view
        if not isinstance(payload, ToolResult):
            break
        seqs.insert(0, seq)
        lost.insert(0, payload)
    if not lost or _called(session, seqs[0]):
        return
    answers = (f"- {block.text}" for result in lost for block in result.message.content)  # type: ignore[union-attr]
    text = "The program was interrupted. Its calls had these results:\n" + "\n".join(answers)
    observe(session, text, seqs)


def _called(session: Session, seq: int) -> bool:
    """Whether the answer before a result asked for it by a tool call, as other loops' do."""
    for event in reversed(session.events[:seq]):
        if isinstance(event.view, AssistantMessage):
            return bool(event.view.message.tool_calls)
    return False
