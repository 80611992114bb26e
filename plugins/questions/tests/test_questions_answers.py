"""Questions of a model, in a harness."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from terret_agents import USER, Agents, InquiryClosedError
from terret_loader import open_harness
from terret_plugin_questions import (
    NO_ANSWER,
    BlankAnswerError,
    QuestionAnswer,
    QuestionItem,
    Questions,
)
from terret_sessions import Aborted, Completed, Interrupted, Session, Sessions, TurnEnd, TurnStart
from terret_testing import Answer, Harness, ManualClock, call, reply, running_harness, say, script
from terret_tools import ToolExec, Tools

ASK = call("system_ask_user", question="Which one?", options=["red", "blue"])


class Booth:
    """A harness whose model asks."""

    def __init__(self, h: Harness, clock: ManualClock) -> None:
        self.h, self.clock = h, clock

    @property
    def questions(self) -> Questions:
        return self.h.ctx[Questions]

    @property
    def log(self) -> list[dict[str, object]]:
        return [event.data for event in self.h.events if event.type.startswith("question/")]

    @property
    def results(self) -> list[str]:
        return [each for each in self.h.transcript if each.startswith(("result", "error"))]

    async def asked(self) -> QuestionItem:
        """The question that is open, as soon as there is one."""
        with anyio.fail_after(5):
            while not self.questions.items():
                await anyio.wait_all_tasks_blocked()
        return self.questions.items()[0]


@asynccontextmanager
async def booth(*answers: Answer, **config: object) -> AsyncIterator[Booth]:
    clock = ManualClock()
    mounts: list[Any] = [clock.plugin(), (Questions, config)]
    model = script(*(answers or [ASK]), *[say("ok")] * 2)
    async with running_harness(plugins=mounts, model=model) as h:
        yield Booth(h, clock)


def says(answer: Any) -> Callable[[QuestionItem], Awaitable[QuestionAnswer | None]]:
    async def channel(item: QuestionItem) -> QuestionAnswer | None:
        return answer  # type: ignore[no-any-return]  # also what is no answer

    return channel


@pytest.mark.parametrize("text", ["red", "neither of them"])
async def test_the_answer_reaches_the_model(text: str) -> None:
    """E-371: One of the options, or any other text."""
    async with booth() as b:
        b.questions.channel(says(QuestionAnswer(text, by="ann")))
        await b.h.send("go")
        assert b.results == [f"result: {text}"]
        outcome = {"id": b.log[0]["id"], "outcome": "answered", "answer": text, "by": "ann"}
        assert b.log[1] == outcome


@pytest.mark.parametrize("options", [None, ["red", "blue"]])
async def test_a_question_is_logged_and_listed(options: list[str] | None) -> None:
    """E-370, E-376: With agent and call, and options only if it has some."""
    given = {"options": options} if options else {}
    async with booth(call("system_ask_user", question="Which one?", **given)) as b:
        b.questions.await_answers()
        b.h.agent.send("go")
        item = await b.asked()
        assert b.log == [
            {
                "id": item.id,
                "callId": "call-1",
                "turn": 1,
                "step": 1,
                "question": "Which one?",
                "agent": "test",
                "expiresAt": "2026-01-01T00:05:00.000Z",
                **given,
            }
        ]
        assert (item.options, item.agent) == (tuple(options) if options else None, b.h.agent)
        assert b.questions.find(item.id) is item
        await b.questions.answer(item.id, QuestionAnswer("red"))
        await b.h.agent.when_idle()


async def test_a_blank_answer_leaves_the_question_open() -> None:
    """E-372: A second answer hears that there was one."""
    async with booth() as b:
        b.questions.channel(says(QuestionAnswer(" ")))
        b.questions.await_answers()
        b.h.agent.send("go")
        item = await b.asked()
        with pytest.raises(BlankAnswerError):
            await b.questions.answer(item.id, QuestionAnswer("\n"))
        await b.questions.answer(item.id, QuestionAnswer("blue"))
        with pytest.raises(InquiryClosedError) as late:
            await b.questions.answer(item.id, QuestionAnswer("red"))
        assert late.value.outcome == "answered"
        await b.h.agent.when_idle()
        assert b.results == ["result: blue"]


@pytest.mark.parametrize("channels", [[], [says(None)], [says("text")]])
async def test_nobody_to_ask_is_no_error(channels: list[Any]) -> None:
    """E-373: A fixed result, and the turn goes on."""
    async with booth() as b:
        for channel in channels:
            b.questions.channel(channel)
        assert await b.h.send("go") == "ok"
        assert b.results == [f"result: {NO_ANSWER}"]
        assert b.log[1]["outcome"] == "unavailable"


async def test_a_question_times_out() -> None:
    """E-373: The model is told that nobody answered."""
    async with booth(timeoutSeconds=9) as b:
        b.questions.await_answers()
        b.h.agent.send("go")
        await b.asked()
        await b.clock.sleeping()
        b.clock.advance(9)
        await b.h.agent.when_idle()
        assert (b.results, b.h.turn_end) == ([f"result: {NO_ANSWER}"], Completed())
        assert b.log[1]["outcome"] == "timed-out"


async def test_a_cancel_withdraws_the_question() -> None:
    """E-373: Nobody can answer it any more."""
    async with booth() as b:
        b.questions.await_answers()
        b.h.agent.send("go")
        item = await b.asked()
        b.h.agent.cancel(USER)
        await b.h.agent.when_idle()
        assert b.h.turn_end == Aborted(USER)
        assert b.log[1] == {"id": item.id, "outcome": "cancelled"}


async def test_two_questions_of_a_batch_are_asked_one_after_the_other() -> None:
    """E-374, E-340: None is lost."""
    async with booth(reply(ASK, call("system_ask_user", question="And then?"))) as b:
        b.questions.await_answers()
        b.h.agent.send("go")
        for text in ("red", "home"):
            item = await b.asked()
            assert b.questions.items() == (item,)
            await b.questions.answer(item.id, QuestionAnswer(text))
        await b.h.agent.when_idle()
        assert b.results == ["result: red", "result: home"]


async def test_a_blank_question_is_an_error_of_the_model() -> None:
    """E-370: Nobody is bothered with it."""
    async with booth(call("system_ask_user", question=" ")) as b:
        await b.h.send("go")
        assert b.results[0].startswith("error: Error: ValueError: the question is blank")
        assert b.log == []


async def test_without_agent_nobody_can_be_asked() -> None:
    """E-373: A call from code has no people behind it."""
    async with booth() as b:
        exec = ToolExec(call_id="c", name="system_ask_user", arguments={"question": "?"})
        assert (await b.h.ctx[Tools].execute(exec)).text == NO_ANSWER


async def test_a_question_of_an_agent_below_is_in_the_log_of_its_root() -> None:
    """E-098, E-376: With the name of the agent that asks."""
    async with booth() as b:
        b.questions.channel(says(QuestionAnswer("yes")))
        meta = {"agentPreset": "helper"}
        created = await b.h.agent.ctx[Agents].create(session_id="kid", meta=meta)
        outer = ToolExec(call_id="o", name="system_ask_user", agent=created.agent)
        exec = ToolExec(
            call_id="c",
            name="system_ask_user",
            arguments={"question": "?"},
            agent=created.agent,
            parent=outer,
        )
        assert (await b.h.ctx[Tools].execute(exec)).text == "yes"
        asked = b.log[0]
        assert asked["agent"] == "helper"
        assert asked["origin"] == {"sessionId": "kid", "agent": "helper", "callId": "o"}


async def test_what_a_crash_left_open_is_cancelled() -> None:
    """E-097, E-344: When the session is used again."""
    async with booth() as b:
        seed = Session("old")
        seed.append("turn/start", TurnStart(1))
        row = {"id": "q", "callId": "c", "turn": 1, "step": 1, "question": "?", "agent": "a"}
        seed.append("question/asked", row)
        seed.append("turn/end", TurnEnd(1, Interrupted()))
        again = b.h.ctx[Sessions].create("again", seed=seed.events)
        assert again.events[-1].data == {"id": "q", "outcome": "cancelled"}
        assert all(each.ignorable for each in again.events if each.type.startswith("question/"))


async def test_it_is_mounted_by_its_name(tmp_path: Path) -> None:
    """The tool goes with it."""
    path = tmp_path / "harness.yml"
    spine = "plugins:\n  sessions: {}\n  system-prompt: {}\n  agents: {}\n  tools: {}\n"
    path.write_text(spine + "  questions: {timeoutSeconds: 5}\n")
    async with open_harness(path, env={}) as root:
        assert [each.name for each in root[Tools].schemas()] == ["system_ask_user"]
