"""The service, and the tool that it gives to models."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import anyio
from pydantic import Field

from terret_agents import Agent, Agents, QuestionAnswer, clock_of
from terret_context import Config, Context, Effect, Service
from terret_sessions import Sessions
from terret_tools import ToolRun, Tools, tool

from ._desk import QUESTIONS, Desk
from ._items import QuestionItem

NO_ANSWER = "No answer: nobody replied. Go on with what you know, or say what you would need."


class QuestionsConfig(Config):
    """Settings of the entry `questions`; a change holds for the next question."""

    timeout_seconds: float = Field(default=300, gt=0, allow_inf_nan=False)
    """How long a question stays open; then the model is told that nobody answers."""


class Questions(Service, key="questions", config=QuestionsConfig, inject=(Agents, Sessions, Tools)):
    """Lets models ask people, with the tool `system_ask_user`: whoever answers first, answers."""

    def __init__(self, ctx: Context, config: QuestionsConfig) -> None:
        super().__init__(ctx, config)
        self._seconds = config.timeout_seconds

    def init(self) -> None:
        self._desk = Desk(self.ctx, QUESTIONS, self._seconds)
        self.ctx.on_update(self._update)

        @tool
        async def system_ask_user(
            run: ToolRun, question: str, options: list[str] | None = None
        ) -> str:
            """Ask the user a question that only the user can answer, and wait for the answer.

            Args:
                question: The question, complete in itself.
                options: Answers to choose from; the user may answer something else.
            """
            return await self._ask(run, question, tuple(options) if options else None)

        self.ctx[Tools].register(system_ask_user)

    def channel(
        self, channel: Callable[[QuestionItem], Awaitable[QuestionAnswer | None]]
    ) -> Effect:
        """Adds a way to reach people about questions of the caller's scope.

        All channels are used together; the first answer wins and cancels the others. `None`, an
        exception and a blank answer are none.
        """
        return self._desk.answerer(self.caller, channel)

    def await_answers(self) -> Effect:
        """Keeps questions of the scope open for `answer`, as a channel without reply."""
        return self._desk.answerer(self.caller, _wait)

    def items(self) -> tuple[QuestionItem, ...]:
        """Returns the open questions, in the order in which they were asked."""
        return self._desk.items()

    def find(self, id: str) -> QuestionItem | None:
        """Returns the open question of that id."""
        return self._desk.find(id)

    async def answer(self, id: str, answer: QuestionAnswer) -> None:
        """Answers an open question and returns when that is durable.

        Raises `BlankAnswerError`, and the question stays open then; `InquiryClosedError` for one
        that is answered, `UnknownInquiryError` for one that never was.
        """
        await self._desk.answer(id, answer)

    async def _ask(self, run: ToolRun, question: str, options: tuple[str, ...] | None) -> str:
        agent = run.agent
        if not question.strip():
            raise ValueError("the question is blank")
        if agent is None:
            return NO_ANSWER
        _, answer = await self._desk.ask(agent, lambda: self._item(agent, run, question, options))
        return NO_ANSWER if answer is None else answer.text

    def _item(
        self, agent: Agent, run: ToolRun, question: str, options: tuple[str, ...] | None
    ) -> QuestionItem:
        now = clock_of(self.ctx).now()
        return QuestionItem(
            id=self._desk.log.new_id(self.ctx[Agents].root_of(agent)),
            agent=agent,
            call_id=run.call_id,
            inside=None if run.parent is None else run.root_call_id,
            question=question,
            options=options,
            requested_at=now,
            expires_at=now + timedelta(seconds=self._desk.seconds),
        )

    def _update(self, old: QuestionsConfig, new: QuestionsConfig) -> bool:
        self._desk.seconds = new.timeout_seconds
        return True


async def _wait(item: QuestionItem) -> QuestionAnswer | None:
    await anyio.sleep_forever()
    return None
