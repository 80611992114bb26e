"""The gate in front of tool calls, in a harness."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from terret_agents import Agents
from terret_context import INTERNAL_ERROR, Context, plugin
from terret_plugin_permissions import Permissions, RuleSet, Scope
from terret_sessions import Completed, Denied
from terret_testing import (
    Answer,
    Harness,
    ManualClock,
    call,
    raw_call,
    reply,
    running_harness,
    say,
    script,
)
from terret_tools import (
    APPROVAL,
    DECIDED,
    Allow,
    ApprovalOutcome,
    Ask,
    Decided,
    Grounds,
    ToolExec,
    Tools,
    tool,
)


class Desk:
    """Answers what people are asked about, in order."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Ask]] = []

    async def request(self, exec: ToolExec, ask: Ask) -> ApprovalOutcome:
        self.asked.append((exec.name, ask))
        answer: Any = self.answers.pop(0)
        return ApprovalOutcome(outcome=answer, id=f"p-{len(self.asked)}", by="ann")


class Floor:
    """A harness behind the gate, and what was decided."""

    def __init__(self, h: Harness, desk: Desk, audit: Path) -> None:
        self.h, self.desk, self.audit = h, desk, audit
        self.grounds: list[Grounds | None] = []

    @property
    def permissions(self) -> Permissions:
        return self.h.ctx[Permissions]

    @property
    def own(self) -> Permissions:
        """As the agent's own context sees it."""
        found = self.h.agent.ctx.get(Permissions)
        assert found is not None
        return found

    @property
    def results(self) -> list[str]:
        return [each for each in self.h.transcript if each.startswith(("result", "error"))]

    @property
    def lines(self) -> list[dict[str, Any]]:
        files = sorted(self.audit.glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@asynccontextmanager
async def floor(
    tmp_path: Path, *answers: Answer, desk: Desk | None = None, **config: object
) -> AsyncIterator[Floor]:
    asked = desk or Desk()
    clock = ManualClock()

    @plugin(name="desk")
    def mounted(ctx: Context) -> None:
        ctx.provide(APPROVAL, asked)

    @tool(is_concurrency_safe=lambda args: True)
    async def buy(amount: int = 1) -> str:
        """Buy."""
        return f"bought {amount}"

    @tool
    async def sell() -> str:
        """Sell."""
        return "sold"

    @tool
    async def system_ask_user(question: str) -> str:
        """Ask."""
        return "yes"

    settings = {"auditFolder": str(tmp_path / "audit"), **config}
    mounts = [clock.plugin(), mounted, (Permissions, settings)]
    model = script(*answers, *[say("ok")] * 3)
    async with running_harness(plugins=mounts, model=model) as h:
        for each in (buy, sell, system_ask_user):
            h.ctx[Tools].register(each)
        made = Floor(h, asked, tmp_path / "audit")

        async def hear(decided: Decided, call_next: Any) -> Any:
            decision = await call_next()
            made.grounds.append(decision.grounds)
            return decision

        h.ctx.on(DECIDED, hear, prepend=True)
        yield made


def rules(*made: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"tool": "*", **each} for each in made]


async def test_without_rules_everything_is_denied(tmp_path: Path) -> None:
    """E-310, E-321: The model reads why, and the turn goes on."""
    async with floor(tmp_path, call("buy")) as f:
        assert await f.h.send("go") == "ok"
        assert f.results == ["error: Error: denied: no rule matched - default"]
        assert f.h.turn_end == Completed()


async def test_with_rules_the_default_is_to_ask(tmp_path: Path) -> None:
    """E-310, E-330: What no rule matches is asked about, once."""
    desk = Desk("allowed-once")
    allow = rules({"tool": "sell", "decision": "allow"})
    async with floor(tmp_path, reply(call("buy"), call("sell")), desk=desk, rules=allow) as f:
        await f.h.send("go")
        assert [name for name, _ in desk.asked] == ["buy"]
        assert f.results == ["result: bought 1", "result: sold"]


@pytest.mark.parametrize("word", ["allow", "deny"])
async def test_a_default_may_be_given(tmp_path: Path, word: str) -> None:
    """E-310: In harness.yml, for agents without rules of their own."""
    async with floor(tmp_path, call("buy"), default=word) as f:
        await f.h.send("go")
        assert f.results[0].startswith("result" if word == "allow" else "error")


async def test_whoever_is_asked_gets_scope_rule_and_whether_it_may_be_edited(
    tmp_path: Path,
) -> None:
    """E-311, E-343: The reason names the rule."""
    ask = rules({"name": "big", "decision": "ask", "editable": True})
    desk = Desk("allowed-once")
    async with floor(tmp_path, call("buy"), desk=desk, rules=ask) as f:
        await f.h.send("go")
        ((_, asked),) = desk.asked
        assert (asked.reason, asked.editable) == ("matched rule 'big'", True)
        scope = {"tenant": "default", "environment": "production", "agent": "test"}
        assert asked.data == {"scope": scope, "rule": "big"}
        assert [each and each.reason for each in f.grounds] == [
            "matched rule 'big' - human approved"
        ]


@pytest.mark.parametrize(
    ("answer", "source", "text"),
    [
        (call("by"), "validation", 'there is no tool "by"'),
        (call("buy", amount="x"), "validation", "/amount"),
        (raw_call("buy", "nope"), "validation", "text that is no JSON"),
    ],
)
async def test_what_cannot_run_is_denied_before_anybody_is_asked(
    tmp_path: Path, answer: Any, source: str, text: str
) -> None:
    """E-056, E-057, E-058, E-324: With the pointer, and the turn goes on."""
    ask = rules({"decision": "ask"})
    async with floor(tmp_path, answer, rules=ask) as f:
        assert await f.h.send("go") == "ok"
        assert f.desk.asked == []
        (grounds,) = f.grounds
        assert grounds is not None
        assert grounds.source == source
        assert text in grounds.reason
        assert f.results[0].startswith("error: Error: denied: ")


async def test_a_person_that_denies_stops_the_turn(tmp_path: Path) -> None:
    """E-064, E-065, E-067, E-321: Siblings are skipped, nobody else is asked."""
    desk = Desk("rejected", "allowed-once")
    ask = rules({"decision": "ask"}, {"tool": "buy", "decision": "allow"})
    answer = reply(call("buy"), call("sell"), call("sell"), call("buy"))
    async with floor(tmp_path, answer, desk=desk, rules=ask) as f:
        await f.h.send("go")
        assert f.results == [
            "result: bought 1",
            "error: Error: denied: matched rule '* *' - human denied",
            "error: Error: skipped: a person denied sell",
            "error: Error: skipped: a person denied sell",
        ]
        assert f.h.turn_end == Denied(("sell",))
        assert len(desk.asked) == 1
        assert [each and each.source for each in f.grounds][:2] == ["rule", "human"]
        codes = [event.data.get("error") for event in f.h.events if event.type == "tool/result"]
        assert codes[2] == {"name": "Denial", "code": "SKIPPED_SIBLING_DENIED", "denied": ["sell"]}


@pytest.mark.parametrize(
    ("outcome", "source"),
    [("timed-out", "timeout"), ("unavailable", "rule"), ("rejected", "human")],
)
async def test_only_a_person_stops_the_turn(tmp_path: Path, outcome: str, source: str) -> None:
    """E-066, E-324: A timeout or an absent approver is an error result."""
    desk = Desk(outcome)
    async with floor(tmp_path, call("sell"), desk=desk, rules=rules({"decision": "ask"})) as f:
        await f.h.send("go")
        stopped = Denied(("sell",)) if outcome == "rejected" else Completed()
        assert f.h.turn_end == stopped
        assert [each and each.source for each in f.grounds] == [source]


async def test_a_denial_does_not_outlast_its_turn(tmp_path: Path) -> None:
    """E-064: The next turn asks again."""
    desk = Desk("rejected", "allowed-once")
    async with floor(
        tmp_path, call("sell"), call("sell"), desk=desk, rules=rules({"decision": "ask"})
    ) as f:
        await f.h.send("go")
        await f.h.send("again")
        assert f.results[-1] == "result: sold"


async def test_a_guard_still_denies_and_nothing_allows_a_denial(tmp_path: Path) -> None:
    """E-322, E-090: Source guard."""
    async with floor(tmp_path, call("buy"), rules=rules({"decision": "allow"})) as f:
        f.h.ctx[Tools].guard(lambda exec: "closed")
        await f.h.send("go")
        assert f.results == ["error: Error: denied: closed"]
        assert [each and each.source for each in f.grounds] == ["guard"]


@pytest.mark.parametrize("gated", [False, True])
async def test_system_tools_pass_unless_they_are_gated(tmp_path: Path, gated: bool) -> None:
    """E-317, E-324: Source system."""
    ask = call("system_ask_user", question="?")
    async with floor(tmp_path, ask, default="deny", gateSystemTools=gated) as f:
        await f.h.send("go")
        expected = ("error", "default") if gated else ("result: yes", "system")
        assert f.results[0].startswith(expected[0])
        assert [each and each.source for each in f.grounds] == [expected[1]]


async def test_an_own_tool_with_the_name_of_a_system_tool_is_gated(tmp_path: Path) -> None:
    """E-286: It shadows the system tool and is a tool like any other."""

    @tool
    async def system_ask_user(question: str) -> str:
        """Not the real one."""
        return "no"

    async with floor(tmp_path, call("system_ask_user", question="?"), default="deny") as f:
        f.h.agent.ctx[Tools].register(system_ask_user)
        await f.h.send("go")
        assert f.results[0].startswith("error: Error: denied")


async def test_an_agent_has_its_own_rules_beside_the_shared_ones(tmp_path: Path) -> None:
    """E-314, E-304: They rank alike; the scope is what was bound."""
    shared = rules({"tool": "buy", "decision": "deny"})
    async with floor(tmp_path, reply(call("buy"), call("sell")), rules=shared) as f:
        both = [{"tool": name, "decision": "allow"} for name in ("buy", "sell")]
        own = RuleSet.model_validate({"rules": both})
        scope = Scope("acme", "staging", "shop")
        effect = f.own.bind(scope=scope, rules=own)
        assert f.permissions.scope_of(f.h.agent) == scope
        assert f.permissions.evaluate(f.h.agent, "buy", {}).decision == "deny"
        await f.h.send("go")
        assert [each.split(":")[0] for each in f.results] == ["error", "result"]
        effect.close()
        assert f.permissions.scope_of(f.h.agent).tenant == "default"


async def test_one_turn_sees_one_rule_set(tmp_path: Path) -> None:
    """E-313: What is bound meanwhile holds from the next turn on."""
    allow = RuleSet.model_validate({"default": "allow"})
    deny = RuleSet.model_validate({"default": "deny"})
    async with floor(tmp_path, call("buy"), call("buy"), say("one"), call("buy")) as f:
        bound = f.own.bind(rules=allow)
        effects = [bound]

        @tool
        async def change() -> str:
            """Nothing."""
            return ""

        async def swap(decided: Decided, call_next: Any) -> Any:
            effects[0].close()
            effects[0] = f.own.bind(rules=deny)
            return await call_next()

        f.h.ctx.on(DECIDED, swap)
        await f.h.send("go")
        await f.h.send("again")
        assert [each.split(":")[0] for each in f.results] == ["result", "result", "error"]


async def test_what_a_tool_calls_in_its_body_is_gated_too(tmp_path: Path) -> None:
    """B-263: The gate sits in front of every call of an agent."""
    async with floor(tmp_path, default="deny") as f:
        root = ToolExec(call_id="r", name="sell", agent=f.h.agent)
        inner = ToolExec(call_id="i", name="buy", agent=f.h.agent, parent=root)
        assert (await f.h.ctx[Tools].execute(inner)).is_error
        free = ToolExec(call_id="f", name="buy")
        assert (await f.h.ctx[Tools].execute(free)).text == "bought 1"


async def test_a_denial_outside_of_a_turn_stops_nothing(tmp_path: Path) -> None:
    """E-064: There is no turn that could stop."""
    desk = Desk("rejected", "allowed-once")
    async with floor(tmp_path, desk=desk, rules=rules({"decision": "ask"})) as f:
        outcomes = []
        for number in range(2):
            exec = ToolExec(call_id=f"c{number}", name="buy", agent=f.h.agent)
            outcomes.append((await f.h.ctx[Tools].execute(exec)).is_error)
        assert outcomes == [True, False]


@pytest.mark.parametrize("form", ["digest", "full", "none"])
async def test_every_decision_is_one_line_of_the_audit(tmp_path: Path, form: str) -> None:
    """E-319, E-324: Arguments as a digest by default."""
    desk = Desk("allowed-once")
    made = rules({"name": "r", "tool": "buy", "decision": "ask"})
    answer = reply(call("buy", amount=3), call("sell"))
    config = {"rules": made, "default": "deny", "audit": form}
    async with floor(tmp_path, answer, desk=desk, **config) as f:
        await f.h.send("go")
        first, second = f.lines
        assert second["source"] == "default"
        arguments = first.pop("arguments", None)
        digest = first.pop("argumentsDigest", "")
        assert (arguments, len(digest)) == {
            "digest": (None, 64), "full": ({"amount": 3}, 0), "none": (None, 0)
        }[form]  # fmt: skip
        assert first == {
            "time": "2026-01-01T00:00:00.000Z",
            "scope": {"tenant": "default", "environment": "production", "agent": "test"},
            "session": "test",
            "call": "call-1",
            "tool": "buy",
            "decision": "allow",
            "source": "human",
            "rule": "r",
            "reason": "matched rule 'r' - human approved",
            "by": "ann",
        }


async def test_the_audit_may_be_off(tmp_path: Path) -> None:
    """E-319: Nothing is written then."""
    async with floor(tmp_path, call("buy"), default="allow", audit="off") as f:
        await f.h.send("go")
        assert not f.audit.exists()


@pytest.mark.parametrize("reaction", ["report", "deny"])
async def test_an_audit_that_cannot_be_written_is_reported_or_denies(
    tmp_path: Path, reaction: str
) -> None:
    """E-320: The call that was allowed is denied with `auditFailure: deny`."""
    (tmp_path / "audit").write_text("a file, no folder")
    async with floor(tmp_path, call("buy"), default="allow", auditFailure=reaction) as f:
        reported: list[str] = []
        f.h.ctx.on(INTERNAL_ERROR, lambda error: reported.append(error.label))
        await f.h.send("go")
        assert reported == ["audit of tool decisions"]
        assert f.results[0].split(":")[0] == ("result" if reaction == "report" else "error")


async def test_agents_are_called_by_their_name(tmp_path: Path) -> None:
    """E-315: The preset of the session is the agent segment."""
    async with floor(tmp_path, default="allow") as f:
        meta = {"agentPreset": "helper"}
        created = await f.h.ctx[Agents].create(session_id="x", meta=meta)
        assert f.permissions.scope_of(created.agent).agent == "helper"


async def test_the_status_names_rules_that_cannot_matter(tmp_path: Path) -> None:
    """E-318: Equal rank, another decision, and an argument the tool does not take."""
    when = [{"field": "amuont", "op": "gt", "value": 3}]
    made = rules(
        {"name": "big", "tool": "buy", "decision": "ask", "when": when},
        {"name": "small", "tool": "buy", "decision": "allow"},
    )
    async with floor(tmp_path, rules=made) as f:
        status = f.permissions.status(f.h.agent)
        (warning,) = status.warnings
        assert "big" in warning
        assert "amuont" in warning
        assert (status.default, status.error, len(status.rules)) == ("ask", None, 2)
        explained = f.permissions.explain(f.h.agent, "buy", {"amount": 1})
        assert [(rule.name, matches) for rule, matches in explained] == [
            ("big", False),
            ("small", True),
        ]


def test_allow_is_what_others_may_still_deny() -> None:
    """E-322: The type says so."""
    assert Allow().grounds is None
