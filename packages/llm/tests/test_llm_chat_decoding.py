import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    Block,
    BlockAssembler,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishChunk,
    ReasoningBlock,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from terret_llm.chat import ChatDecoder
from terret_llm.wire import AnswerStream, ProviderErrors

DONE = b"data: [DONE]\n\n"


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def tool(
    arguments: Any = None, *, index: Any = 0, id: Any = None, name: Any = None
) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def decoded(*body: bytes, cut: int | None = None, inline_think: bool = False) -> list[Chunk]:
    ids = (f"new-{n}" for n in itertools.count())
    stream = AnswerStream(ChatDecoder(inline_think=inline_think, new_call_id=lambda: next(ids)))
    whole = b"".join(body)
    size = cut or len(whole) or 1
    pieces = [whole[i : i + size] for i in range(0, len(whole), size)]
    return [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()


def answer(*body: bytes, inline_think: bool = False) -> tuple[tuple[Block, ...], Finish]:
    assembler = BlockAssembler()
    for chunk in decoded(*body, inline_think=inline_think):
        assembler.push(chunk)
    return assembler.blocks(), assembler.finish


def test_text_becomes_a_block_with_start_deltas_and_end() -> None:
    assert decoded(
        delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), DONE
    ) == [
        BlockStart(0, "text"),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        BlockEnd(0, TextBlock("Hello")),
        FinishChunk(Finish.stop()),
    ]


def test_usage_comes_before_the_finish_whenever_it_was_sent() -> None:
    """B-024, B-028, M-067, M-070: the last value wins, cached tokens are no uncached ones."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    chunks = decoded(
        event({"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 1}}),
        delta("stop"),
        event({"choices": [], "usage": usage}),
        DONE,
    )
    assert chunks[-2:] == [UsageChunk(Usage(36, 9, 64, None, 5)), FinishChunk(Finish.stop())]
    half = event({"choices": [], "usage": {"completion_tokens": 9}})
    assert not any(isinstance(c, UsageChunk) for c in decoded(delta(content="a"), half, DONE))
    legacy = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}
    assert UsageChunk(Usage(6, 1, 4)) in decoded(
        delta(content="a"), event({"choices": [], "usage": legacy}), DONE
    )


def test_nulls_and_empty_choices_add_nothing() -> None:
    """B-025, B-027, M-067: explicit nulls, filter results and pings are no content."""
    nulls = {"content": None, "tool_calls": None, "function_call": None, "refusal": None}
    blocks, finish = answer(
        event({"id": "", "choices": [], "prompt_filter_results": []}),
        delta(**nulls, reasoning_content=None),
        event({"object": "ping"}),
        delta(content="A", tool_calls=None),
        event({"choices": [{"delta": None, "finish_reason": "stop"}], "usage": None}),
        DONE,
    )
    assert (blocks, finish) == ((TextBlock("A"),), Finish.stop())


@pytest.mark.parametrize(
    "entries",
    [
        [[tool("", id="a", name="f")], [tool('{"x":')], [tool("1}")]],
        [[tool(None, id="a", name="f")], [tool(None)], [tool('{"x":1}')]],
        [[tool('{"x":1}', id="a", name="f")]],
        [[tool({"x": 1}, id="a", name="f")]],
        [[tool("", index=None, id="a", name="f")], [tool('{"x":1}', index=None)]],
        [[tool('{"x"', id="a", name="f")], [tool(":1}", id="a", name="f")]],
        [[tool('{"x"', id="a", name="f")], [tool(":1}", id="random")]],
    ],
)
def test_one_call_is_assembled_from_every_dialect_of_deltas(entries: list[Any]) -> None:
    """B-040, B-043, B-050, B-051: null means unchanged, the name comes once."""
    blocks, finish = answer(*(delta(tool_calls=each) for each in entries), delta("stop"), DONE)
    assert blocks == (ToolCallBlock("a", "f", '{"x":1}'),)
    assert finish == Finish.tool_calls()


@pytest.mark.parametrize(
    "entries",
    [
        [[tool("{}", id="a", name="f"), tool("[]", index=1, id="b", name="g")]],
        [[tool("{}", id="a", name="f")], [tool("[]", index=1, id="b", name="g")]],
        [[tool("{}", id="a", name="f")], [tool("[]", index=0, id="b", name="g")]],
        [
            [tool("{", index=None, id="a", name="f")],
            [tool("[", index=None, id="b", name="g")],
            [tool("}", index=None, id="a")],
            [tool("]", index=None, id="b")],
        ],
    ],
)
def test_parallel_calls_stay_apart(entries: list[Any]) -> None:
    """B-044, B-045, B-048, B-049, M-066: by index, by a new id on one index, by id alone."""
    blocks, _ = answer(*(delta(tool_calls=each) for each in entries), DONE)
    assert blocks == (ToolCallBlock("a", "f", "{}"), ToolCallBlock("b", "g", "[]"))


def test_calls_without_id_or_with_one_used_before_get_their_own() -> None:
    """B-062, B-063, M-066: ids are unique in an answer."""
    blocks, _ = answer(
        delta(tool_calls=[tool("{}", id="a", name="f"), tool("{}", index=1, id="a", name="g")]),
        delta(tool_calls=[{"function": {"name": "h", "arguments": "{}"}}]),
        DONE,
    )
    assert [(call.id, call.name) for call in blocks if isinstance(call, ToolCallBlock)] == [
        ("a", "f"),
        ("new-0", "g"),
        ("new-1", "h"),
    ]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ('{"x": y', '{"x": y'),
        ('["x"]', '["x"]'),
        ('{"a":1}{"b":2}', '{"a":1}{"b":2}'),
        (
            '{"c":"\\ud99c x \\ud83c\\udf0d \\\\ud99c"}',
            '{"c":"\\ufffd x \\ud83c\\udf0d \\\\ud99c"}',
        ),
    ],
)
def test_arguments_are_kept_as_the_model_wrote_them(sent: str, kept: str) -> None:
    """B-052, B-053, B-056, B-058, B-068: only blanks, null and lone surrogates are replaced."""
    blocks, _ = answer(delta(tool_calls=[tool(sent, id="a", name="f")]), DONE)
    assert blocks == (ToolCallBlock("a", "f", kept),)


def test_a_legacy_function_call_is_a_tool_call() -> None:
    body = delta("function_call", function_call={"name": "f", "arguments": "{}"})
    assert answer(body, DONE) == ((ToolCallBlock("new-0", "f", "{}"),), Finish.tool_calls())


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", Finish.stop()),
        ("tool_calls", Finish.stop()),
        ("length", Finish.max_tokens()),
        ("content_filter", Finish("content-filter")),
        ("something_new", Finish("something-new")),
    ],
)
def test_finish_reasons_map_to_kinds(reason: str, finish: Finish) -> None:
    """B-060, B-115, M-070: `tool_calls` without a call is a stop, unknown reasons stay visible."""
    assert answer(delta(content="x"), delta(reason), DONE)[1] == finish


def test_calls_decide_over_the_finish_reason_but_not_over_the_output_limit() -> None:
    """B-054, B-059: complete calls run, cut ones do not."""
    call = delta(tool_calls=[tool('{"x', id="a", name="f")])
    assert answer(call, delta("stop"), DONE)[1] == Finish.tool_calls()
    assert answer(call, delta("length"), DONE) == ((), Finish.max_tokens())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([delta(content="x")], "STREAM_CLOSED"),
        ([delta(tool_calls=[tool('{"a', id="a", name="f")])], "STREAM_CLOSED"),
        ([b'data: {"choices":[{"delta":{"content":"x"}}'], "EMPTY_RESPONSE"),
        ([delta(content="x"), b'data: {"choices":[{"delta":{"content":"x'], "STREAM_CLOSED"),
        ([], "EMPTY_RESPONSE"),
        ([b": ping\n\n"], "EMPTY_RESPONSE"),
        ([DONE], "EMPTY_RESPONSE"),
        ([delta("stop"), DONE], "EMPTY_RESPONSE"),
        ([delta(content="x"), delta("error"), DONE], "SERVER"),
        ([b"data: oops\n\n"], "MALFORMED_RESPONSE"),
        ([b"data: [1]\n\n"], "MALFORMED_RESPONSE"),
    ],
)
def test_an_unfinished_or_senseless_answer_is_an_error(body: list[bytes], code: str) -> None:
    """B-013, B-020, M-069: a stream that just ends is never complete."""
    finish = answer(*body)[1]
    assert finish.failure is not None
    assert (finish.kind, finish.failure.code) == ("error", code)


def test_either_mark_of_the_end_is_enough() -> None:
    """B-014, B-015: `[DONE]` without finish reason, and the reverse."""
    assert answer(delta(content="x"), DONE)[1] == Finish.stop()
    assert answer(delta(content="x"), delta("stop"))[1] == Finish.stop()


def test_wherever_the_body_ends_it_is_complete_only_behind_its_finish_reason() -> None:
    """B-013, M-069: also in the middle of an event or of the end mark; text stays as it came."""
    body = delta(content="Hel") + delta(content="lö") + delta("stop") + DONE
    complete = body.index(b"stop") + len(b'stop"}]}')
    marked = body.replace(b'"stop"', b"null")
    for end in range(len(body)):
        finish = answer(body[:end])[1]
        assert finish.failed == (end < complete)
        assert end >= complete or finish.failure is not None
        failure = answer(marked[:end])[1].failure
        for found in (finish.failure, failure):
            assert found is None or found.code in ("EMPTY_RESPONSE", "STREAM_CLOSED")
    assert answer(marked)[1] == Finish.stop()


def test_nothing_comes_after_the_finish() -> None:
    """B-012, B-016: what follows `[DONE]` or an error is not read."""
    chunks = decoded(delta(content="x"), DONE, delta(content="y"), DONE)
    assert [chunk.type for chunk in chunks].count("finish") == 1
    assert chunks[-1] == FinishChunk(Finish.stop())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (event({"error": {"message": "overloaded", "code": 502}}), "SERVER"),
        (event({"choices": [{"delta": {}, "error": {"message": "x", "code": 429}}]}), "RATE_LIMIT"),
        (b"event: error\n" + event({"message": "bad request", "status": "400"}), "INVALID_REQUEST"),
        (event({"error": "insufficient balance"}), "QUOTA"),
        (event({"error": {"type": "server_error", "message": "oh"}}), "SERVER"),
        (event({"error": {"code": "context_length_exceeded"}}), "CONTEXT_WINDOW_EXCEEDED"),
        (event({"error": {"message": "?"}}), "UNKNOWN"),
    ],
)
def test_an_error_inside_the_stream_beats_its_finish(error: bytes, code: str) -> None:
    """B-009, B-012: the text before it was delivered, the failure is typed."""
    chunks = decoded(delta(content="Half"), error, delta("stop"), DONE)
    assert chunks[1] == TextDelta(0, "Half")
    last = chunks[-1]
    assert isinstance(last, FinishChunk)
    assert last.finish.failure is not None
    assert last.finish.failure.code == code


def test_a_whole_answer_instead_of_a_stream_is_used() -> None:
    """B-022: the first character decides, not the content type."""
    message = {"content": "hi", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}}
    blocks, finish = answer(b"\n " + json.dumps(body).encode())
    assert blocks == (TextBlock("hi"), ToolCallBlock("a", "f", "{}"))
    assert finish == Finish.tool_calls()


@pytest.mark.parametrize(
    ("body", "code", "shown"),
    [
        (b"<!doctype html><title>Sign in</title>", "MALFORMED_RESPONSE", "in HTML: Sign in"),
        (b"<html><body>Sign<br>in", "MALFORMED_RESPONSE", "in HTML: Sign in"),
        (b'{"error":{"message":"model is loading"}}', "SERVER", "model is loading"),
        (b'[{"error":{"message":"rate limit"}}]', "RATE_LIMIT", "rate limit"),
        (b'{"status":"ok"}', "MALFORMED_RESPONSE", 'no chat completion: {"status":"ok"}'),
        (b'{"choices":[', "MALFORMED_RESPONSE", 'no JSON: {"choices":['),
    ],
)
def test_a_body_that_is_no_answer_is_an_error_that_shows_it(
    body: bytes, code: str, shown: str
) -> None:
    """B-021, B-023: proxies answer 200 with anything."""
    failure = answer(body)[1].failure
    assert failure is not None
    assert failure.code == code
    assert failure.message.endswith(shown)


def test_reasoning_and_text_are_blocks_of_their_own() -> None:
    """B-081, B-089, M-066: fields, typed parts and empty beginnings."""
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    blocks, _ = answer(
        delta(reasoning_content=""),
        delta(reasoning_content="Let"),
        delta(reasoning=" me"),
        delta(content=thinking),
        delta(content=[{"type": "text", "text": "4"}, {"type": "image_url"}]),
        delta(content="2", reasoning_content=None),
        DONE,
    )
    assert blocks == (ReasoningBlock("Let mehm"), TextBlock("42"))


@given(st.integers(1, 12))
def test_think_tags_are_split_however_they_are_cut(size: int) -> None:
    """B-084: with the option on, no tag and no reasoning stays in the text."""
    text = "a < b<think>se<x>cret</think>public <thi"
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    body = [delta(content=piece) for piece in pieces]
    blocks, _ = answer(*body, DONE, inline_think=True)
    assert blocks == (
        TextBlock("a < b"),
        ReasoningBlock("se<x>cret"),
        TextBlock("public <thi"),
    )
    assert answer(*body, DONE)[0] == (TextBlock(text),)


def test_bad_text_in_an_event_does_no_harm() -> None:
    """B-067, B-068: raw control characters pass, lone surrogates and broken bytes are replaced."""
    bodies = [b'"a\tb"', b'"\\ud99c x"', b'"\xff"', b'"\\u0000"']
    texts = [
        answer(b'data: {"choices":[{"delta":{"content":' + body + b"}}]}\n\n", DONE)[0]
        for body in bodies
    ]
    assert texts == [(TextBlock(text),) for text in ("a\tb", "\ufffd x", "\ufffd", "\0")]


@given(st.integers(1, 40))
def test_any_cut_gives_equal_chunks(cut: int) -> None:
    """B-004, B-006: text, reasoning, calls and usage, with every line end."""
    body = b"".join(
        (
            delta(reasoning_content="日本").replace(b"\n", b"\r\n"),
            delta(content="🌍 hé").replace(b"\n", b"\r"),
            delta(tool_calls=[tool('{"x"', id="a", name="f"), tool("{}", index=1, name="g")]),
            delta("tool_calls", tool_calls=[tool(":1}")]),
            event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
            DONE,
        )
    )
    assert decoded(body, cut=cut) == decoded(body)
    assert ToolCallDelta(2, "a", "f", '{"x"') in decoded(body)


def test_an_oversized_event_is_an_error_finish() -> None:
    decoder = ChatDecoder(errors=ProviderErrors("here"))
    stream = AnswerStream(decoder, max_event_bytes=100)
    chunks = [*stream.feed(b'data: {"choices":'), *stream.feed(b" " * 100)]
    assert isinstance(chunks[-1], FinishChunk)
    assert chunks[-1].finish.failure is not None
    assert chunks[-1].finish.failure.code == "MALFORMED_RESPONSE"
    assert stream.finished


def test_a_decoder_takes_payloads_of_any_framing() -> None:
    decoder = ChatDecoder()
    first = decoder.push(b'{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}')
    assert [chunk.type for chunk in first] == ["block-start", "text-delta"]
    assert decoder.answered
    assert not decoder.finished
    assert decoder.close()[-1] == FinishChunk(Finish.stop())


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def shaped(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return anything | st.fixed_dictionaries({}, optional=fields)


functions = shaped(name=anything, arguments=anything)
tool_calls = anything | st.lists(shaped(index=anything, id=anything, function=functions))
parts = anything | st.lists(shaped(type=anything, text=anything, thinking=anything))
deltas = shaped(
    content=parts,
    reasoning=anything,
    refusal=anything,
    tool_calls=tool_calls,
    function_call=functions,
)
choices = anything | st.lists(shaped(delta=deltas, message=deltas, finish_reason=anything))
payloads = shaped(choices=choices, usage=shaped(prompt_tokens=anything), error=anything)


@given(st.lists(payloads, max_size=4), st.booleans())
def test_no_payload_breaks_the_decoder_or_the_grammar(sent: list[Any], done: bool) -> None:
    """B-024, B-025, B-027, B-089: starts before deltas, one end each, one finish at the end."""
    chunks = decoded(*map(event, sent), DONE if done else b"")
    started: set[int] = set()
    ended: set[int] = set()
    for chunk in chunks[:-1]:
        if isinstance(chunk, BlockStart):
            assert chunk.index not in started
            started.add(chunk.index)
        elif isinstance(chunk, BlockEnd):
            assert chunk.index in started - ended
            ended.add(chunk.index)
        elif not isinstance(chunk, UsageChunk):
            assert getattr(chunk, "index", None) in started - ended
    assert [chunk.type for chunk in chunks].count("finish") == 1
    assert isinstance(chunks[-1], FinishChunk)
    assert chunks[-1].finish.failed or started == ended


@given(anything, st.integers(400, 599))
def test_any_error_body_gives_a_failure(body: Any, status: int) -> None:
    """B-116: whatever its shape, the status and a bounded text survive."""
    found = ProviderErrors("here").of_response(status, {}, json.dumps(body).encode())
    assert found.status == status
    assert len(found.message) < 560
