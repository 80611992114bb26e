"""Asking people on behalf of an agent: one item at a time, and the first answer counts."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from terret_context import AnonymousLayers, Context, Effect
from terret_sessions import CREATED, Session, Sessions

from ._agent import Agent
from ._clock import clock_of
from ._inquiry_log import InquiryLog
from ._service import Agents

InquiryEnd: TypeAlias = Literal["answered", "cancelled", "unavailable", "timed-out"]


class InquiryItem(Protocol):
    """What every kind of item has: an id that is never used again, and the agent behind it."""

    @property
    def id(self) -> str: ...
    @property
    def agent(self) -> Agent: ...


ItemT = TypeVar("ItemT", bound=InquiryItem)
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """What somebody answered to a question of a model."""

    text: str
    by: str | None = None


class _Open(Generic[ItemT, ReplyT]):
    """An item until its end is durable."""

    def __init__(self, item: ItemT) -> None:
        self.item = item
        self.end: InquiryEnd | None = None
        self.reply: ReplyT | None = None
        self.settled = anyio.Event()
        self.logged = False
        self.closed = anyio.Event()
        self.failure: Exception | None = None

    def settle(self, end: InquiryEnd, reply: ReplyT | None = None) -> bool:
        """Takes the first end that comes; tells whether this was it."""
        if self.end is not None:
            return False
        self.end, self.reply = end, reply
        self.settled.set()
        return True


class Inquiries(ABC, Generic[ItemT, ReplyT]):
    """One kind of item that people have to answer, and everybody who may.

    Of all kinds together one item is open for each root agent and the agents below it: first come,
    first asked. An item is logged before anybody hears of it, and its end is durable before
    whoever answered gets to know. Items that a crash left open are closed as `cancelled` when
    their session is used again.

    Args:
        ctx: the context of the plugin that owns this kind; open items end with its fiber.
        log: where items of this kind stand in a session log.
        seconds: how long an item stays open.
    """

    def __init__(self, ctx: Context, log: InquiryLog, seconds: float) -> None:
        self.ctx = ctx
        self.log = log
        self.seconds = seconds
        self._answerers = AnonymousLayers[Callable[[ItemT], Awaitable[ReplyT | None]]](log.kind)
        self._open: dict[str, _Open[ItemT, ReplyT]] = {}
        self._withdrawn = False
        ctx.on(CREATED, self._close_left_open)
        ctx.effect(self._until_withdrawn, label=f"open items ({log.kind})")

    @abstractmethod
    def log_asked(self, item: ItemT) -> None:
        """Logs that an item is asked."""

    @abstractmethod
    def log_ended(self, item: ItemT, end: InquiryEnd, reply: ReplyT | None) -> None:
        """Logs how an item ended."""

    async def vet(self, item: ItemT, reply: ReplyT) -> None:
        """Raises for a reply that does not count."""

    async def consult(
        self, item: ItemT, everybody: Callable[[], Awaitable[ReplyT | None]]
    ) -> ReplyT | None:
        """Gets a reply; `everybody()` asks all answerers together."""
        return await everybody()

    @final
    def answerer(
        self, caller: Context, answer: Callable[[ItemT], Awaitable[ReplyT | None]]
    ) -> Effect:
        """Adds somebody who is asked about items of the caller's scope; `None` is no answer."""
        return self._answerers.add(caller, answer)

    @final
    def items(self) -> tuple[ItemT, ...]:
        """Returns the open items, in the order in which they were asked."""
        return tuple([each.item for each in self._open.values() if each.end is None])

    @final
    def find(self, id: str) -> ItemT | None:
        """Returns the open item of that id."""
        found = self._open.get(id)
        return None if found is None or found.end else found.item

    @final
    async def answer(self, id: str, reply: ReplyT) -> None:
        """Answers an item from outside and returns when that is durable.

        Raises what `vet` raises, and the item stays open then; `InquiryClosedError` for an item
        that is not open any more, `UnknownInquiryError` for one that no log has.
        """
        found = self._open.get(id)
        if found is not None:
            await self.vet(found.item, reply)
        if found is None or not found.settle("answered", reply):
            if found is not None:
                await found.closed.wait()
            raise await self.log.closed(self.ctx, id)
        await found.closed.wait()
        if found.failure is not None:
            raise found.failure
        if found.end != "answered":  # the turn was cancelled at the same time
            raise await self.log.closed(self.ctx, id)

    @final
    async def ask(
        self, agent: Agent, make: Callable[[], ItemT]
    ) -> tuple[InquiryEnd, ReplyT | None]:
        """Waits for its turn, asks, and returns how the item ended and the reply, if it got one.

        `make` is called when the item has come to the head of the queue. A cancellation of the
        caller closes the item, also if an answer came at the same time.
        """
        async with self.ctx[Agents].attention(agent):
            if self._withdrawn:
                return "unavailable", None
            item = make()
            self.log_asked(item)
            found = self._open[item.id] = _Open[ItemT, ReplyT](item)
            self.ctx.spawn(self._keep, item, name=f"{self.log.kind} {item.id}")
            try:
                await self._settle(found)
                await checkpoint_if_cancelled()
                await self._close(found)
            except anyio.get_cancelled_exc_class():
                if not found.logged:
                    found.end, found.reply = "cancelled", None
                    self.log_ended(item, "cancelled", None)
                raise
            except Exception as error:
                found.failure = error
                raise
            finally:
                del self._open[item.id]
                found.closed.set()
        assert found.end is not None
        return found.end, found.reply

    async def _settle(self, found: _Open[ItemT, ReplyT]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._consult, found)
            group.start_soon(self._expire, found)
            await found.settled.wait()
            group.cancel_scope.cancel()

    async def _close(self, found: _Open[ItemT, ReplyT]) -> None:
        assert found.end is not None
        found.logged = True
        self.log_ended(found.item, found.end, found.reply)
        await self._flush(found.item)

    async def _flush(self, item: ItemT) -> None:
        for session in self.log.sessions(self.ctx[Agents], item.agent):
            await self.ctx[Sessions].flush(session)

    async def _keep(self, item: ItemT) -> None:
        """Makes it durable that somebody is asked: a crash must not take that back."""
        try:
            await self._flush(item)
        except Exception as error:  # the end of the item cannot be kept either, and says so
            self.ctx.report(error, label=f"{self.log.kind} {item.id}")

    async def _consult(self, found: _Open[ItemT, ReplyT]) -> None:
        item = found.item
        try:
            reply = await self.consult(item, partial(self._everybody, item))
            if reply is not None:
                await self.vet(item, reply)
        except Exception as error:
            self.ctx.report(error, label=f"{self.log.kind} {item.id}")
            reply = None
        found.settle("unavailable" if reply is None else "answered", reply)

    async def _everybody(self, item: ItemT) -> ReplyT | None:
        replies: list[ReplyT] = []
        async with anyio.create_task_group() as group:

            async def one(answer: Callable[[ItemT], Awaitable[ReplyT | None]]) -> None:
                try:
                    reply = await answer(item)
                    if reply is None:
                        return
                    await self.vet(item, reply)
                except Exception as error:
                    self.ctx.report(error, label=f"answer to {self.log.kind} {item.id}")
                else:
                    replies.append(reply)
                    group.cancel_scope.cancel()

            for answer in self._answerers.collect(item.agent):
                group.start_soon(one, answer)
        return replies[0] if replies else None

    async def _expire(self, found: _Open[ItemT, ReplyT]) -> None:
        await clock_of(self.ctx).sleep(self.seconds)
        found.settle("timed-out")

    def _close_left_open(self, session: Session) -> None:
        for id in self.log.left_open(session.events):
            try:
                session.append(self.log.ended, {"id": id, "outcome": "cancelled"})
            except Exception as error:
                self.ctx.report(error, label=f"{self.log.kind} {id}")

    def _until_withdrawn(self) -> Iterator[Callable[[], Awaitable[None]]]:
        yield self._withdraw

    async def _withdraw(self) -> None:
        self._withdrawn = True
        for found in tuple(self._open.values()):
            found.settle("unavailable")
            await found.closed.wait()
