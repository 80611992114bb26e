"""The container keeps its properties, whatever is done to it in whatever order."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from container_machine import ScriptMachine
from container_rows import check_end, check_errors, check_loads, check_undos
from container_runs import SCHEDULERS, replay, run
from container_scripts import (
    Ask,
    CancelWaiter,
    Close,
    Form,
    Mount,
    Op,
    Provide,
    Recipe,
    Settle,
    Step,
)

EXAMPLES = int(os.environ.get("TERRET_SOAK", "150"))
ROUND = 1000
"""Most examples of one search, since Hypothesis remembers all of them."""


def check_everywhere(ops: list[Op], **options: object) -> None:
    """Runs a script under every scheduler, and checks its ledger line by line and as a whole."""
    for scheduler in SCHEDULERS:
        done = run(ops, scheduler=scheduler, **options)  # type: ignore[arg-type]  # passed on
        replay(done)
        check_end(done)
        check_undos(done)
        check_errors(done)
        check_loads(done)


class Lifecycle(ScriptMachine):
    """Any script, followed line by line in the model."""

    def check(self) -> None:
        check_everywhere(self.ops, ending=self.ending, seed=self.seed, backend=self.backend)


@pytest.mark.parametrize("_", range(max(1, EXAMPLES // ROUND)))
def test_the_container_keeps_its_properties(_: int) -> None:
    """PR-T1 to PR-T4, PR-T7, PR-S1 to PR-S6, PR-P1, PR-P2, PR-F1, PR-F2, PR-E1."""
    run_state_machine_as_test(
        Lifecycle,
        settings=settings(
            max_examples=min(EXAMPLES, ROUND),
            stateful_step_count=20,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )


# ---- scripts that the machine found, shrunk

RAISES = Recipe("async", (Step("raise"),))
FAILS_LATE = Recipe("plain", (Step("effect", undo="raises"),))


def test_an_update_during_a_load_that_fails_is_applied_afterwards() -> None:
    """C-160, PR-P2: the failure belongs to the load, not to what was asked for meanwhile."""
    picky = Recipe("async", (Step("raise", picky=True, sleep=1),))
    check_everywhere([Mount("f", picky, level=1), Ask("update", "f", level=2), Settle()])
    check_everywhere([Mount("f", RAISES), Ask("restart", "f"), Settle()])


def test_a_provider_waits_for_those_who_still_use_what_it_withdrew() -> None:
    """C-211, PR-S2: an object that was withdrawn by its handle counts until nobody has it."""
    consumer = Recipe("plain", (Step("effect", undo="sleeps"),), optional=("a",))
    ops: list[Op] = [Mount("f", Recipe()), Provide("p", "a", "f"), Mount("g", consumer)]
    ops.append(Settle())
    check_everywhere([*ops, Ask("retire", "f"), Close("p"), Settle()])


def test_failures_of_a_child_that_ends_before_its_turn_are_reported() -> None:
    """PR-T3, C-175: the unload around it takes them over."""
    child = Recipe("plain", tail="raises")
    parent = Recipe("async", (Step("child", child=child), Step("effect", undo="sleeps")))
    ops: list[Op] = [Mount("f", parent), Settle(), Ask("retire", "f"), Ask("retire", "f#1.0")]
    check_everywhere([*ops, Settle()])


def test_failures_of_an_exit_under_cancellation_are_logged() -> None:
    """C-252, PR-F2: nobody else can be told of them."""
    check_everywhere([Mount("f", FAILS_LATE), Settle()], ending="cancel")


def test_an_error_that_a_cancelled_waiter_would_have_got_is_logged() -> None:
    """C-018, PR-T3: also if the waiter is cancelled at the moment of the failure."""
    ops: list[Op] = [Mount("f", Recipe("plain", (Step("raise"),))), Ask("restart", "f")]
    check_everywhere([*ops, CancelWaiter(0), Settle()])


def test_a_body_and_a_task_that_fail_together_are_both_reported() -> None:
    """PR-T3, C-236: the task's error makes the fiber FAILED, that of the body is logged."""
    body = Recipe("async", (Step("crash"), Step("raise", sleep=1)))
    check_everywhere([Mount("f", body), Settle()])


def test_the_error_of_a_load_that_was_superseded_before_anybody_heard_is_logged() -> None:
    """C-159, PR-T3: two updates in a row fail, and only the second one is awaited to its end."""
    ops: list[Op] = [Mount("f", Recipe("plain", (Step("raise"),)))]
    check_everywhere([*ops, Ask("update", "f"), Ask("update", "f"), Settle()])


@pytest.mark.parametrize("declares", [(), ("a",)], ids=["undeclared", "declared"])
@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_circle_through_a_child_comes_to_rest(form: Form, declares: tuple[str, ...]) -> None:
    """PR-P1, PR-P3: what goes with a load of one of them counts while it is away, too."""
    child = Recipe(form, (Step("provide", key="a"),), declares=declares)
    parent = Recipe("plain", (Step("effect"), Step("child", child=child)), optional=("b",))
    other = Recipe(form, (Step("provide", key="b"),), optional=("a",))
    ops: list[Op] = [Mount("f", parent), Mount("g", other), Settle()]
    for asked in ("f", "g"):
        ops += [Ask("restart", asked), Settle()]
    check_everywhere(ops)


def test_a_load_in_the_exit_of_the_container_is_undone_as_well() -> None:
    """PR-T2, PR-T4: a fiber loads anew when an optional service goes before it does."""
    needing = Recipe(tail="plain", optional=("a",))
    ops: list[Op] = [Mount("f", Recipe()), Mount("g", needing, "f"), Provide("p", "a")]
    check_everywhere([*ops, Mount("h", Recipe(tail="sleeps"))], ending="exit")
