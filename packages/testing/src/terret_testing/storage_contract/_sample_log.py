from terret_llm import (
    Block,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishChunk,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
    UsageChunk,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_sessions import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    ErrorInfo,
    Replace,
    Session,
    StepEnd,
    StepStart,
    Todo,
    TodoWrite,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
)

ODD_TEXT = 'é \u2028\u2029\u0085\x00\x1e\r\n\t"\\ 日本語 🌍'


def add_turn(session: Session, text: str = "hi", *, end: bool = True) -> None:
    """Appends a turn of one prompt; without `end` it stays open, as after a crash."""
    number = session.last_turn + 1
    session.append("turn/start", TurnStart(number))
    session.append("user/message", create_user_message(text), surface_op="append")
    if end:
        session.append("turn/end", TurnEnd(number, Completed()))


def sample_session(id: str = "sample") -> Session:
    """Makes a session with chunks, a call, its result, a replacement and a foreign event."""
    session = Session(id, meta={"cwd": "/project", "agentPreset": ODD_TEXT})
    turn = session.last_turn + 1
    session.append("turn/start", TurnStart(turn))
    prompt = session.append("user/message", create_user_message(ODD_TEXT), surface_op="append")
    session.append("step/start", StepStart(turn, 1))
    _stream(session, turn)
    _use_a_tool(session, turn)
    session.append("step/end", StepEnd(turn, 1))
    summary = create_user_message("All of it, in short.")
    place = Replace(prompt.seq, prompt.seq)
    session.append("user/message", summary, surface_op=place, sources=[prompt.seq])
    session.append("someone/else", {"text": ODD_TEXT, "n": [1, 2.5, None, True]}, ignorable=True)
    session.append("turn/end", TurnEnd(turn, Completed()))
    return session


def _stream(session: Session, turn: int) -> None:
    pieces = [f"{number} {ODD_TEXT}" for number in range(20)]
    chunks: list[Chunk] = [
        BlockStart(0, "reasoning"),
        *(ReasoningDelta(0, piece) for piece in pieces),
        BlockStart(1, "text"),
        *(TextDelta(1, piece) for piece in pieces),
        BlockEnd(1, TextBlock("".join(pieces))),
        ToolCallDelta(2, "c1", "add", ""),
        *(ToolCallDelta(2, "c1", None, piece) for piece in pieces),
        UsageChunk(Usage(10, 5)),
        FinishChunk(Finish.tool_calls()),
    ]
    first = len(session.events)
    for chunk in chunks:
        session.append("assistant/chunk", AssistantChunk(turn, 1, chunk))
    blocks: list[Block] = [TextBlock("".join(pieces)), ToolCallBlock("c1", "add", "{}")]
    answer = AssistantMessage(turn, 1, create_assistant_message(blocks, "p", "m"), Usage(10, 5))
    sources = [(first, first + len(chunks) - 1)]
    session.append("assistant/message", answer, surface_op="append", sources=sources)


def _use_a_tool(session: Session, turn: int) -> None:
    call = session.append("tool/call", ToolCall(turn, 1, "c1", "add", "{}"))
    message = create_tool_result_message("c1", ODD_TEXT, is_error=True)
    result = ToolResult(turn, 1, message, ErrorInfo("Denied", "DENIED", {"rule": ODD_TEXT}))
    session.append("tool/result", result, surface_op="append", sources=[call.seq])
    session.append("todo/write", TodoWrite((Todo(ODD_TEXT, "open"),)))
