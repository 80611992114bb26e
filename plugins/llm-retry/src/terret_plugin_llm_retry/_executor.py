from collections.abc import Awaitable, Callable
from uuid import uuid4

import anyio
import anyio.lowlevel

from terret_agents import RequestFailure, Retry, clock_of
from terret_context import Context
from terret_sessions import Session, StepStart

from ._events import LlmRetry, LlmRetryStarted
from ._policy import delay_ms, policy_key


class RetryExecutor:
    """Listens on `agent/request-error`; waits and lets the request be made again."""

    def __init__(self, ctx: Context) -> None:
        self._clock = clock_of(ctx)
        self._waits: set[anyio.CancelScope] = set()
        self._closed = False
        self._left = anyio.Event()

    async def __call__(
        self, failed: RequestFailure, call_next: Callable[[], Awaitable[Retry | None]]
    ) -> Retry | None:
        planned = None if self._closed else self._plan(failed)
        if planned is None or not await self._wait(failed.agent.session, planned):
            return await call_next()
        return Retry()

    async def close(self) -> None:
        """End all waits, and return when they have ended."""
        self._closed = True
        for scope in self._waits:
            scope.cancel()
        while self._waits:
            await self._left.wait()

    def _plan(self, failed: RequestFailure) -> LlmRetry | None:
        policy = failed.retry_policy
        if policy is None:
            return None
        key = policy_key(policy)
        last = _last_retry(failed.agent.session, failed.provider, key)
        retry = 1 if last is None else last.retry + 1
        delay = delay_ms(policy, failed.failure, retry)
        if delay is None:
            return None
        return LlmRetry(
            retry_id=str(uuid4()) if last is None else last.retry_id,
            turn=failed.turn,
            step=failed.step,
            provider=failed.provider,
            policy_key=key,
            retry=retry,
            max_retries=policy.max_retries,
            delay_ms=delay,
            failure=failed.failure,
        )

    async def _wait(self, session: Session, planned: LlmRetry) -> bool:
        """Whether the wait came to its end; it does not when the plugin goes."""
        with anyio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                session.append("llm/retry", planned)
                await anyio.lowlevel.checkpoint()  # who sees the event may cancel the turn
                if planned.delay_ms:
                    await self._clock.sleep(planned.delay_ms / 1000)
                started = LlmRetryStarted(
                    planned.retry_id, planned.turn, planned.step, planned.retry
                )
                session.append("llm/retry-started", started)
                return True
            finally:
                self._waits.discard(scope)
                self._left.set()
                self._left = anyio.Event()
        return False


def _last_retry(session: Session, provider: str, key: str) -> LlmRetry | None:
    """The last repetition of this provider under this policy in the open step."""
    for event in reversed(session.events):
        view = event.view
        if isinstance(view, StepStart):
            return None
        if isinstance(view, LlmRetry) and (view.provider, view.policy_key) == (provider, key):
            return view
    return None
