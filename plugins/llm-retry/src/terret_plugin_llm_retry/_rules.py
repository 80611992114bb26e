from terret_sessions import Session, SessionEvent, StepStart

from ._events import LlmRetry, LlmRetryStarted


class RetryRuleError(ValueError):
    """A retry event that does not fit the log in front of it."""

    def __init__(self, session: Session, event: SessionEvent, reason: str) -> None:
        super().__init__(f"session {session.id}: {event.type} at {event.seq}: {reason}")


def check_retries(session: Session, event: SessionEvent) -> None:
    """Refuse retry events outside the open step, out of their order, or of a chain's other parts.

    Raises RetryRuleError.
    """
    view = event.view
    if not isinstance(view, LlmRetry | LlmRetryStarted):
        return
    if (view.turn, view.step) != (session.open_turn, session.open_step):
        raise RetryRuleError(session, event, "it does not belong to the open step")
    reason = _chain_fault(session, view)
    if reason is not None:
        raise RetryRuleError(session, event, reason)


def _chain_fault(session: Session, view: LlmRetry | LlmRetryStarted) -> str | None:
    chain = _chain(session, view)
    retries = [each for each in chain if isinstance(each, LlmRetry)]
    started = [each.retry for each in chain if isinstance(each, LlmRetryStarted)]
    if isinstance(view, LlmRetryStarted):
        due = retries[-1].retry if retries else None
        return None if view.retry == due and due not in started else "no retry waits to be started"
    if view.retry != len(retries) + 1:
        return f"retry {len(retries) + 1} of its chain is next, not {view.retry}"
    of_chain = {(each.provider, each.policy_key) for each in retries} - {
        (view.provider, view.policy_key)
    }
    return f"its chain belongs to {of_chain.pop()[0]!r}" if of_chain else None


def _chain(session: Session, view: LlmRetry | LlmRetryStarted) -> list[LlmRetry | LlmRetryStarted]:
    """The events of the same chain in the open step, in order."""
    found: list[LlmRetry | LlmRetryStarted] = []
    for event in reversed(session.events):
        earlier = event.view
        if isinstance(earlier, StepStart):
            break
        if isinstance(earlier, LlmRetry | LlmRetryStarted) and earlier.retry_id == view.retry_id:
            found.append(earlier)
    return found[::-1]
