"""A model that says again what a log recorded."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from terret_agents import REQUEST_ERROR, USER, Agents, Retry
from terret_context import Context, plugin
from terret_llm import GenerateOptions, Llm, PluginSource, create_user_message
from terret_plugin_session_jsonl import session_jsonl
from terret_sessions import (
    Aborted,
    Errored,
    Replace,
    SessionLog,
    SessionMeta,
    Sources,
)
from terret_testing import (
    SCRIPTED,
    Broken,
    Hanging,
    Harness,
    PlaceholderError,
    ReplayError,
    ReplayModel,
    ScriptExhaustedError,
    call,
    fail,
    pause,
    read_session,
    reply,
    running_harness,
    say,
    script,
    think,
)
from terret_tools import Tools, tool


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


def log_of(h: Harness) -> SessionLog:
    return SessionLog(h.session.header, tuple(h.events))


async def recorded() -> SessionLog:
    """Two turns, the first with a tool call."""
    model = script(reply(think("hm"), call("ping")), say("pong ", "it is"), say("bye"))
    async with running_harness(model=model) as h:
        h.ctx[Tools].register(ping)
        await h.send("ping?")
        await h.send("thanks")
        return log_of(h)


async def replayed(model: ReplayModel, *prompts: str) -> Harness:
    async with running_harness(model=model) as h:
        h.ctx[Tools].register(ping)
        for prompt in prompts:
            await h.send(prompt)
        return h


async def test_a_replay_gives_the_chunks_of_the_log_again() -> None:
    """M-110, M-112: split at each finish, by position, packed runs of chunks included."""
    log = await recorded()
    model = ReplayModel(log)
    again = await replayed(model, "ping?", "thanks")
    model.assert_consumed()
    before = [event.data for event in log.events if event.type == "assistant/chunk"]
    assert [event.data for event in again.events if event.type == "assistant/chunk"] == before
    again.assert_transcript(
        "user: ping?",
        "call: ping {}",
        "result: pong",
        "assistant: pong it is",
        "user: thanks",
        "assistant: bye",
    )


async def test_a_stored_session_is_read_from_its_file(tmp_path: Path) -> None:
    """M-110: header, rows and packed runs."""
    plugins = [(session_jsonl, {"root": str(tmp_path)})]
    async with running_harness(plugins=plugins, model=script(say(*"abcdef"))) as h:
        await h.send("hi")
        expected = log_of(h)
    log = read_session(*tmp_path.rglob("*.jsonl"))  # noqa: ASYNC240 - a test may wait
    assert log.header == expected.header
    assert [event.data for event in log.events] == [event.data for event in expected.events]


async def test_retries_are_calls_of_their_own() -> None:
    """M-110: a failed attempt and the one that followed it."""
    async with running_harness(model=script(reply(say("x"), fail("SERVER")), say("ok"))) as h:
        h.ctx.on(REQUEST_ERROR, lambda failure, call_next: Retry())
        await h.send("go")
        log = log_of(h)
    again = await replayed(ReplayModel(log), "go")
    assert isinstance(again.turn_end, Errored)
    assert again.model.remaining == 1
    with pytest.raises(AssertionError, match="turn 1, step 1, attempt 2"):
        again.model.assert_consumed()  # type: ignore[attr-defined]


async def test_the_call_that_made_a_summary_is_put_in() -> None:
    """M-110: where the log was compacted, a summary is asked for between two answers."""
    async with running_harness(model=script(say("a"), say("b"))) as h:
        await h.send("one")
        first, last = h.session.surface.seqs[0], h.session.surface.seqs[-1]
        h.session.append("compaction/summary", {}, ignorable=True)
        h.session.append(
            "user/message",
            create_user_message("in short", PluginSource("compaction")),
            surface_op=Replace(first, last),
            sources=Sources([first, last]),
        )
        await h.send("two")
        session = h.session
    model = ReplayModel(session)
    said = [await answer(model) for _ in range(3)]
    assert said == ["a", "in short", "b"]


async def answer(model: ReplayModel, session_id: str | None = "s") -> str:
    request = GenerateOptions(provider="p", model="m", messages=(), session_id=session_id)
    chunks = [chunk async for chunk in model.stream(request)]
    return "".join(getattr(chunk, "text", "") for chunk in chunks)


async def interrupted() -> SessionLog:
    """A turn that was cancelled in the middle of its answer, and one more."""
    async with running_harness(model=script(reply(say("par"), pause("p")), say("fine"))) as h:
        h.agent.send("go")
        await h.model.reached("p")
        h.agent.cancel(USER)
        await h.agent.when_idle()
        await h.send("again")
        return log_of(h)


async def test_an_answer_without_a_finish_is_refused_with_its_place() -> None:
    """M-110: unless an override says what happens there."""
    log = await interrupted()
    with pytest.raises(ReplayError, match="turn 1, step 1, attempt 1: the answer has no finish"):
        ReplayModel(log)
    again = await replayed(ReplayModel(log, overrides={(1, 1): say("whole")}), "go", "again")
    assert again.transcript[1::2] == ("assistant: whole", "assistant: fine")


@pytest.mark.parametrize("key", [(2, 1), (2, 1, 1), ("test", (2, 1))])
async def test_an_override_names_its_call_in_several_forms(key: tuple[int, ...]) -> None:
    """M-111: by turn and step, with the attempt, with the session."""
    model = ReplayModel(await recorded(), overrides={key: say("other")})
    again = await replayed(model, "ping?", "thanks")
    assert again.transcript[-1] == "assistant: other"


async def test_answers_can_be_added_behind_the_recorded_ones() -> None:
    """M-111."""
    model = ReplayModel(await recorded(), more=[say("more")])
    again = await replayed(model, "ping?", "thanks", "and?")
    assert again.transcript[-1] == "assistant: more"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({(3, 1): say("x")}, r"no call \[3, 1\]"),
        ({(2, 1): say("x"), (2, 1, 1): say("y")}, "overridden twice"),
        ({("other", (1, 1)): say("x")}, "no recorded session"),
    ],
)
async def test_overrides_of_calls_that_there_are_not_are_refused(
    overrides: Mapping[tuple[int, ...], object], message: str
) -> None:
    """M-111: and so are two for one call."""
    with pytest.raises(ReplayError, match=message):
        ReplayModel(await recorded(), overrides=overrides)  # type: ignore[arg-type]


async def test_a_replay_may_break_after_some_chunks() -> None:
    """M-112: the run sees the error of a provider."""
    broken = Broken(ConnectionError("cut"), after=2)
    again = await replayed(ReplayModel(await recorded(), overrides={(1, 2): broken}), "ping?")
    assert isinstance(again.turn_end, Errored)
    assert "cut" in again.turn_end.failure.message
    assert again.transcript[-1] == "result: pong"


async def test_a_replay_may_hang_and_say_so_with_a_file(tmp_path: Path) -> None:
    """M-112: a cancellation ends it there."""
    signal = tmp_path / "hangs"
    model = ReplayModel(await recorded(), overrides={(1, 1): Hanging(after=2, signal=signal)})
    async with running_harness(model=model) as h:
        h.agent.send("ping?")
        with anyio.fail_after(10):
            while not signal.exists():  # noqa: ASYNC110 - files tell nobody
                await anyio.sleep(0.005)
        h.agent.cancel(USER)
        await h.agent.when_idle()
        assert h.turn_end == Aborted(USER)


async def test_a_recording_that_has_ended_is_loud() -> None:
    """M-112: the test fails with the name of the session."""
    model = ReplayModel(await recorded())
    with pytest.raises(ScriptExhaustedError, match='recording of session "test" has ended'):
        await replayed(model, "ping?", "thanks", "and?")


async def test_a_replay_keeps_its_place_when_its_plugin_is_loaded_again() -> None:
    """M-112."""
    model = ReplayModel(await recorded(), pace=0.001)

    @plugin(inject=(Llm,))
    def provider(ctx: Context) -> None:
        ctx[Llm].register_adapter("replay", model)

    async with running_harness(plugins=[provider]) as h:
        options = replace(SCRIPTED, provider="replay")
        async with await h.ctx[Agents].create(session_id="b", agent_options=options) as handle:
            h.ctx[Tools].register(ping)
            handle.agent.send("ping?")
            await handle.agent.when_idle()
            [fiber] = h.ctx.fibers(provider)
            await fiber.restart()
            handle.agent.send("thanks")
            await handle.agent.when_idle()
            assert handle.agent.session.derive_messages()[-1].text == "bye"


async def test_each_conversation_replays_a_log_of_its_own() -> None:
    """M-113: the first one the first log, others the children as they were created."""
    parent = await said("parent", "p1", "p2")
    older = await said("older", "o1", created=1000)
    younger = await said("younger", "y1", created=2000)
    model = ReplayModel(parent, younger, older)
    assert await answer(model, "x") == "p1"
    assert await answer(model, "y") == "o1"
    assert await answer(model, "z") == "y1"
    assert await answer(model, "x") == "p2"
    with pytest.raises(ScriptExhaustedError, match="one conversation more than the 3 recorded"):
        await answer(model, "w")


async def said(session_id: str, *answers: str, created: int = 0) -> SessionLog:
    model = script(*[say(text) for text in answers])
    async with running_harness(model=model, session_id=session_id) as h:
        for _ in answers:
            await h.send("go")
        header = replace(h.session.header, created_at=created)
        return SessionLog(header, tuple(h.events))


async def test_a_forked_child_replays_only_what_is_its_own() -> None:
    """M-113."""
    async with running_harness(model=script(say("parent"), say("child"))) as h:
        await h.send("a")
        seed = tuple(h.events)
        meta = SessionMeta(parent_session="test", seed_length=len(seed))
        async with await h.ctx[Agents].create(
            session_id="b", seed=seed, meta=meta, agent_options=SCRIPTED
        ) as child:
            child.agent.send("b")
            await child.agent.when_idle()
            model = ReplayModel(child.agent.session)
    assert await answer(model) == "child"
    model.assert_consumed()


async def test_a_placeholder_is_the_last_match_in_the_conversation() -> None:
    """M-114: of its first group, if it has one; a quantifier may stand at its end."""
    log = await recorded()
    texts = ["{{last:p.ng}} {{last:ping(.)}} {{last:[pong]{3}}}", "{{last:(a)b}}"]
    model = ReplayModel(log, overrides={(1, 2): say(texts[0])})
    again = await replayed(model, "ping? ping!")
    assert again.transcript[-1] == "assistant: pong ! pon"


@pytest.mark.parametrize(("pattern", "reason"), [("nowhere", "nothing in"), ("(", "missing")])
async def test_a_placeholder_that_cannot_be_filled_in_is_loud(pattern: str, reason: str) -> None:
    """M-114."""
    text = "{{last:" + pattern + "}}"
    model = ReplayModel(await recorded(), overrides={(1, 1): call("ping", a=text)})
    request = GenerateOptions(provider="p", model="m", messages=())
    with pytest.raises(PlaceholderError, match=reason):
        _ = [chunk async for chunk in model.stream(request)]
