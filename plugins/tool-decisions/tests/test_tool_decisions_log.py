"""What the log keeps of decisions."""

from pathlib import Path
from typing import Any

from terret_context import Context, plugin
from terret_loader import open_harness
from terret_plugin_tool_decisions import tool_decisions
from terret_sessions import Session, event_from_json, event_to_json
from terret_testing import Harness, call, raw_call, reply, running_harness, say, script
from terret_tools import (
    APPROVAL,
    DECIDED,
    PRE_EXECUTE,
    SKIPPED_SIBLING_DENIED,
    Allow,
    ApprovalOutcome,
    Ask,
    Decision,
    Deny,
    Grounds,
    ToolExec,
    ToolRun,
    Tools,
    tool,
)

RULE = Grounds(source="rule", reason="matched rule 'r'", rule="r")


@tool
async def buy(item: str = "bread") -> str:
    """Buy something."""
    return f"bought {item}"


async def turn(*decisions: Decision, mounts: tuple[object, ...] = ()) -> tuple[Harness, list[Any]]:
    """Runs a turn of one answer with a call for each decision; returns what was recorded."""
    calls = [call("buy") for _ in decisions] or [call("buy")]
    model = script(reply(*calls), say("ok"))
    async with running_harness(plugins=[tool_decisions, *mounts], model=model) as h:
        h.ctx[Tools].register(buy)
        left = list(decisions)
        if decisions:
            h.ctx.on(PRE_EXECUTE, lambda exec, call_next: left.pop(0))
        await h.send("go")
        return h, [event.data for event in h.events if event.type == "tool/decision"]


def asker(outcome: ApprovalOutcome) -> object:
    class Desk:
        async def request(self, exec: ToolExec, ask: Ask) -> ApprovalOutcome:
            return outcome

    @plugin(name="desk")
    def desk(ctx: Context) -> None:
        ctx.provide(APPROVAL, Desk())

    return desk


async def test_a_call_has_one_record_between_call_and_result() -> None:
    """E-040, E-089, E-323: Without a policy it is allowed, and recorded."""
    h, records = await turn()
    (record,) = records
    assert record == {
        "turn": 1,
        "step": 1,
        "callId": "call-1",
        "name": "buy",
        "decision": "allow",
        "source": "default",
        "reason": "no policy objects",
    }
    order = [event.type for event in h.events if event.type.startswith("tool/")]
    assert order == ["tool/call", "tool/decision", "tool/result"]


async def test_each_call_is_recorded_in_the_order_of_the_model() -> None:
    """E-040, E-324: With source, rule and reason."""
    _, records = await turn(Allow(RULE), Deny("denied: matched rule 'r'", grounds=RULE), Deny("no"))
    found = [
        [each.get(key) for key in ("decision", "source", "rule", "reason")] for each in records
    ]
    assert [tuple(each) for each in found] == [
        ("allow", "rule", "r", "matched rule 'r'"),
        ("deny", "rule", "r", "matched rule 'r'"),
        ("deny", "hook", None, "no"),
    ]
    assert [each["callId"] for each in records] == ["call-1", "call-2", "call-3"]


async def test_a_guard_that_denies_after_an_allow_gives_one_record() -> None:
    """E-090, E-322: Deny, source guard."""

    @plugin(inject=(Tools,))
    def guard(ctx: Context) -> None:
        ctx[Tools].guard(lambda exec: "closed")

    _, records = await turn(Allow(RULE), mounts=(guard,))
    assert [(each["decision"], each["source"], each["reason"]) for each in records] == [
        ("deny", "guard", "closed")
    ]


async def test_an_approval_leaves_its_id_and_edited_arguments() -> None:
    """E-046, E-350: The tool/call keeps what the model wrote."""
    answer = ApprovalOutcome(outcome="allowed-once", id="p-1", arguments={"item": "milk"})
    h, (record,) = await turn(Ask(None, RULE), mounts=(asker(answer),))
    assert (record["source"], record["approvalId"]) == ("human", "p-1")
    assert record["args"] == {"item": "milk"}
    assert record["reason"] == "matched rule 'r' - human approved"
    assert "result: bought milk" in h.transcript


async def test_what_others_make_of_a_decision_is_what_is_recorded() -> None:
    """E-320: A listener that denies because it cannot keep its own record."""

    @plugin
    def refuse(ctx: Context) -> None:
        ctx.on(DECIDED, lambda decided, call_next: Deny("no ink", grounds=RULE))

    _, records = await turn(Allow(RULE), mounts=(refuse,))
    assert [each["decision"] for each in records] == ["deny"]


async def test_a_skipped_call_was_never_decided() -> None:
    """E-064: It has no record."""
    skip = Deny("skipped", SKIPPED_SIBLING_DENIED, {"denied": ["buy"]})
    _, records = await turn(skip)
    assert records == []


async def test_calls_inside_a_body_have_no_record() -> None:
    """E-040: The model did not ask for them."""

    @plugin(inject=(Tools,))
    def outer(ctx: Context) -> None:
        @tool
        async def twice(run: ToolRun) -> str:
            """Buy."""
            inner = ToolExec(call_id="i", name="buy", agent=run.agent, parent=run.exec)
            return (await ctx[Tools].execute(inner)).text

        ctx[Tools].register(twice)

    model = script(raw_call("twice", "{}"), say("ok"))
    async with running_harness(plugins=[tool_decisions, outer], model=model) as h:
        h.ctx[Tools].register(buy)
        await h.send("go")
        records = [event.data for event in h.events if event.type == "tool/decision"]
        assert [each["name"] for each in records] == ["twice"]


async def test_a_failing_policy_is_recorded_as_a_refusal() -> None:
    """E-324: Source hook."""

    @plugin
    def broken(ctx: Context) -> None:
        def fail(exec: ToolExec, call_next: object) -> Decision:
            raise RuntimeError("broken")

        ctx.on(PRE_EXECUTE, fail)

    _, records = await turn(mounts=(broken,))
    assert [(each["decision"], each["source"]) for each in records] == [("deny", "hook")]


async def test_records_are_ignorable_and_no_model_sees_them() -> None:
    """E-095, E-096: Log-only, and a reader that does not know them loads the log."""
    h, _ = await turn()
    event = next(event for event in h.events if event.type == "tool/decision")
    assert event.ignorable
    assert event_from_json(event_to_json(event)) == event
    bare = [one for one in h.events if one.type != "tool/decision"]
    renumbered = [
        {"type": one.type, "seq": seq, "time": one.time, "data": one.data}
        | ({"surfaceOp": one.surface_op} if one.surface_op else {})
        for seq, one in enumerate(bare)
    ]
    assert list(Session(seed=renumbered).derive_messages()) == list(h.session.derive_messages())


async def test_it_is_mounted_by_its_name(tmp_path: Path) -> None:
    """As any entry, and removed like one."""
    path = tmp_path / "harness.yml"
    path.write_text("plugins: {system-prompt: {}, tools: {}, tool-decisions: {}}\n")
    async with open_harness(path, env={}) as root:
        assert len(root.listeners(DECIDED)) == 1
