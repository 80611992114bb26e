"""The check in front of every model call, in a harness."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from terret_agents import PRE_STEP, AgentOptions, Agents, Enter, Reject
from terret_context import Next
from terret_llm import ModelInfo, PluginSource
from terret_loader import HarnessConfigError, installed_plugins, open_harness
from terret_plugin_budget import UNKNOWN_WINDOW, Budget
from terret_system_prompt import SystemPrompt
from terret_testing import (
    SCRIPTED,
    Answer,
    Harness,
    ScriptedModel,
    call,
    reply,
    running_harness,
    say,
    script,
)
from terret_tools import Tools, tool


@asynccontextmanager
async def measured(
    *answers: Answer, meter: bool = False, options: AgentOptions | None = None, **config: object
) -> AsyncIterator[Harness]:
    mounts: list[Any] = [(Budget, config)]
    if meter:
        mounts.append({each.name: each for each in installed_plugins()}["token-meter"].load())
    model = script(*answers, *[reply(say("ok"), usage=None)] * 4)
    async with running_harness(plugins=mounts, model=model, options=options) as h:
        yield h


def checks(h: Harness) -> list[dict[str, Any]]:
    return [event.data for event in h.events if event.type == "budget/checked"]


def notices(h: Harness) -> list[str]:
    messages = [m for m in h.session.derive_messages() if isinstance(m.source, PluginSource)]
    return [
        m.text
        for m in messages
        if m.source == PluginSource("budget", "notice", None, "context budget")
    ]


async def first_use() -> int:
    async with measured(contextBudgetTokens=1_000_000) as h:
        await h.send("hi")
        used = checks(h)[0]["usedTokens"]
        assert isinstance(used, int)
        return used


@pytest.mark.parametrize(
    ("share", "action"),
    [
        (0.5, "ok"),
        (0.7, "nudge"),
        (0.9, "nudge"),
        (0.92, "over_hard_limit"),
        (2, "over_hard_limit"),
    ],
)
async def test_the_limits_are_inclusive(share: float, action: str) -> None:
    """E-380, E-022: The nudge goes with its action."""
    used = await first_use()
    budget = round(used / share)
    soft, hard = used / round(used / 0.7), used / round(used / 0.92)
    async with measured(contextBudgetTokens=budget, soft=soft, hard=hard) as h:
        await h.send("hi")
        check = checks(h)[0]
        assert (check["action"], check["usedTokens"], check["budgetTokens"]) == (
            action,
            used,
            budget,
        )
        assert ("nudge" in check) == (action == "nudge")


@pytest.mark.parametrize("meter", [False, True])
async def test_system_prompt_tools_history_and_input_count(meter: bool) -> None:
    """E-381: With a meter and without."""

    @tool
    async def weather(city: str) -> str:
        """Say how the weather is, at length and with many words, so that it counts."""
        return "fine"

    async with measured(
        reply(say("x" * 400), usage=None), meter=meter, contextBudgetTokens=100_000
    ) as h:
        h.agent.send("hi")
        await h.agent.when_idle()
        h.ctx[SystemPrompt].section("more", 5, "word " * 80)
        await h.send("hi")
        h.ctx[Tools].register(weather)
        await h.send("y" * 400)
        first, second, third = [check["usedTokens"] for check in checks(h)]
        assert second > first + 100
        assert third > second + 100


@pytest.mark.parametrize("meter", [False, True])
async def test_one_check_for_each_step(meter: bool) -> None:
    """E-020, E-384: In front of the request, after which it only grows."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    async with measured(
        reply(call("look"), usage=None), meter=meter, contextBudgetTokens=100_000
    ) as h:
        h.ctx[Tools].register(look)
        await h.send("hi")
        places = [(check["turn"], check["step"]) for check in checks(h)]
        assert places == [(1, 1), (1, 2)]
        types = [event.type for event in h.events]
        assert types.index("budget/checked") < types.index("step/start")
        assert checks(h)[1]["usedTokens"] > checks(h)[0]["usedTokens"]


async def test_the_nudge_enters_the_history_once_per_crossing() -> None:
    """E-382, E-384: At the tail; while it stays above, checks carry it and nothing is added."""
    used = await first_use()
    async with measured(contextBudgetTokens=round(used * 1.2), soft=0.7, hard=1.0) as h:
        for _ in range(2):
            await h.send("hi")
        first = h.requests[0].messages
        assert first[0].text == "hi"
        assert notices(h) == [first[-1].text]
        assert "% full" in first[-1].text
        assert list(h.requests[1].messages[: len(first)]) == list(first)


async def test_after_falling_below_the_nudge_is_given_again() -> None:
    """E-383: Each crossing from below counts."""
    async with measured(contextBudgetTokens=1_000_000) as h:
        own = h.agent.ctx.get(Budget)
        assert own is not None
        for tokens in (10, 1_000_000, 10, 10):
            effect = own.limit(tokens)
            await h.send("hi")
            effect.close()
        assert [check["action"] for check in checks(h)] == [
            "over_hard_limit", "ok", "over_hard_limit", "over_hard_limit"
        ]  # fmt: skip
        assert len(notices(h)) == 2


async def test_what_was_said_is_known_from_the_log() -> None:
    """E-382: After a restart too."""
    seed: list[Any] = []
    for expected in (1, 1):
        async with measured(contextBudgetTokens=10) as h:
            created = await h.ctx[Agents].create(session_id="s", seed=seed, agent_options=SCRIPTED)
            created.agent.send("hi")
            await created.agent.when_idle()
            session = created.agent.session
            told = [m for m in session.derive_messages() if isinstance(m.source, PluginSource)]
            assert len(told) == expected
            seed = list(session.events)


async def test_a_rejected_step_leaves_no_notice() -> None:
    """E-386: The check is logged, and nothing enters."""
    async with measured(contextBudgetTokens=10) as h:
        effect = h.ctx.on(PRE_STEP, lambda proposal, call_next: Reject("no"))
        await h.send("hi")
        assert (len(checks(h)), notices(h)) == (1, [])
        effect.close()
        await h.send("again")
        assert len(notices(h)) == 1


async def test_a_notice_never_causes_a_request() -> None:
    """E-382: A batch that others emptied stays empty."""
    async with measured(contextBudgetTokens=10) as h:

        async def empty(proposal: Any, call_next: Next[Enter | Reject]) -> Enter | Reject:
            await call_next()
            return Enter(())

        h.ctx.on(PRE_STEP, empty)
        await h.send("hi")
        assert h.requests == []


class Windowed(ScriptedModel):
    """A model that says how large its window is."""

    info: dict[str, Any] = {}  # noqa: RUF012  # set by the test

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        return ModelInfo(id=model, **self.info)


@pytest.mark.parametrize(
    ("info", "max_tokens", "expected"),
    [
        ({"context_window": 1000}, None, 1000),
        ({"context_window": 1000, "max_tokens": 300}, None, 700),
        ({"context_window": 1000, "max_tokens": 300}, 200, 800),
        ({"context_window": 100}, 200, 100),
        ({}, 200, UNKNOWN_WINDOW),
    ],
)
async def test_auto_is_the_window_without_room_for_the_answer(
    info: dict[str, Any], max_tokens: int | None, expected: int
) -> None:
    """E-385: Unknown: 8000."""
    model = Windowed(say("ok"))
    model.info = info
    options = AgentOptions(provider="scripted", model="scripted", max_tokens=max_tokens)
    async with running_harness(plugins=[Budget], model=model, options=options) as h:
        await h.send("hi")
        assert checks(h)[0]["budgetTokens"] == expected


async def test_a_route_nobody_knows_has_the_unknown_budget() -> None:
    """E-385: The request says what is wrong."""
    options = AgentOptions(provider="nowhere", model="m")
    async with measured(options=options) as h:
        h.agent.send("hi")
        await h.agent.when_idle()
        assert checks(h)[0]["budgetTokens"] == UNKNOWN_WINDOW


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ("{soft: 0.95}", "soft"),
        ("{soft: 0}", r"harness.yml:8:\d+ .*soft"),
        ("{hard: 1.2}", r"harness.yml:8:\d+ .*hard"),
        ("{contextBudgetTokens: 0}", r"harness.yml:8:\d+ .*contextBudgetTokens"),
        ("{contextBudgetTokens: much}", r"harness.yml:8:\d+ .*contextBudgetTokens"),
    ],
)
async def test_settings_that_make_no_sense_stop_the_start(
    tmp_path: Path, settings: str, fault: str
) -> None:
    """E-387: The key is named."""
    path = tmp_path / "harness.yml"
    spine = "plugins:\n  llm: {}\n  sessions: {}\n  system-prompt: {}\n  agents: {}\n  tools: {}\n"
    path.write_text(f"{spine}  agent-loop: {{}}\n  budget: {settings}\n")
    with pytest.raises(HarnessConfigError, match=fault):
        async with open_harness(path, env={}):
            pass


async def test_a_budget_below_one_is_refused() -> None:
    """E-387: From code too."""
    async with measured() as h:
        with pytest.raises(ValueError, match="at least one"):
            h.ctx[Budget].limit(0)


async def test_checks_are_ignorable() -> None:
    """E-095, E-096: And no model sees them."""
    async with measured() as h:
        await h.send("hi")
        event = next(event for event in h.events if event.type == "budget/checked")
        assert event.ignorable
        assert event.surface_op is None
