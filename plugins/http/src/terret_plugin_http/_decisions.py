"""The routes about what waits for people."""

from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from terret_agents import InquiryClosedError, QuestionAnswer, UnknownInquiryError
from terret_sessions import SessionKey
from terret_tools import ApprovalDecision

from ._answers import ApprovalList, PendingAnswer, QuestionList, Taken, TurnAnswer
from ._bodies import AnswerBody, ApproveBody, DecisionQuery, DenyBody, Input
from ._calls import Answers, Call, Endpoint, Handler, tenant_of
from ._config import Role
from ._conversations import Conversation, Item
from ._errors import HttpError
from ._neighbours import Approvals, Questions
from ._stored import session_of
from ._turns import described, reached_by_turn, requested_at, respond


async def list_approvals(call: Call) -> ASGIApp:
    """Lists the calls of an agent, or of one session, that wait."""
    return JSONResponse({"approvals": await _listed(call, "approval")}, headers=_NO_STORE)


async def list_questions(call: Call) -> ASGIApp:
    """Lists the questions of an agent, or of one session, that wait."""
    return JSONResponse({"questions": await _listed(call, "question")}, headers=_NO_STORE)


async def approve(call: Call) -> ASGIApp:
    """Lets a call run."""
    body = call.sent(ApproveBody)
    decision = ApprovalDecision(
        allow=True, args=body.args, note=body.note, remember=body.remember, by=call.by.name
    )
    return await _decide(call, decision)


async def deny(call: Call) -> ASGIApp:
    """Keeps a call from running."""
    note = call.sent(DenyBody).note
    return await _decide(call, ApprovalDecision(allow=False, note=note, by=call.by.name))


async def answer(call: Call) -> ASGIApp:
    """Answers a question."""
    questions, id = call.site.questions, call.names["item"]
    found = await _find(call, "question", questions)
    reply = QuestionAnswer(call.sent(AnswerBody).answer, by=call.by.name)
    return await _settle(call, "question", found, questions.answer(id, reply))


async def _decide(call: Call, decision: ApprovalDecision) -> ASGIApp:
    approvals, id = call.site.approvals, call.names["item"]
    found = await _find(call, "approval", approvals)
    return await _settle(call, "approval", found, approvals.decide(id, decision))


async def _settle(
    call: Call, kind: str, found: Conversation | None, settled: Awaitable[None]
) -> ASGIApp:
    """Waits until a decision is durable, then for what the turn comes to.

    Without conversation the item is not open; the decision tells how it ended.
    """
    turn = found.open_turn if found is not None else None
    try:
        await settled
    except InquiryClosedError as closed:
        if not await _may_see(call, closed.session_id):
            raise UnknownInquiryError(kind, closed.item_id) from None
        raise
    assert found is not None
    assert turn is not None
    call.session_id = found.key.raw_id
    if call.queried(DecisionQuery).wait:
        look = partial(reached_by_turn, found, turn)
        return await call.site.answer(found, look, lambda: turn)
    raw_id, url = found.key.raw_id, call.site.links.session(found.key)
    return respond(found, 200, {"ok": True, "sessionId": raw_id, "statusUrl": url})


async def _find(call: Call, kind: str, service: Approvals | Questions) -> Conversation | None:
    """Returns the conversation in which the item of the path is open; `None` if it is not.

    Raises `UnknownInquiryError` for one that the caller must not know of.
    """
    id = call.names["item"]
    for conversation in call.site.conversations.all():
        item = conversation.items.get(id)
        if item is not None and item.kind == kind:
            if await _may_see(call, str(conversation.key)):
                return conversation
            raise UnknownInquiryError(kind, id)
    if service.find(id) is not None:  # of an agent that is not served here
        raise UnknownInquiryError(kind, id)
    return None


async def _may_see(call: Call, session_id: str) -> bool:
    """Tells whether a session is one of the tenant that the request is for."""
    try:
        key = SessionKey.parse(session_id)
        definition = call.site.definition(key.agent)
    except (ValueError, HttpError):
        return False
    return key.tenant == await tenant_of(call.by, definition, call.headers)


async def _listed(call: Call, kind: str) -> list[dict[str, object]]:
    agent, raw_id = call.names["agent"], call.names.get("session")
    conversations: Iterable[Conversation] = call.site.conversations.of_agent(call.tenant, agent)
    if raw_id is not None:
        await session_of(call.site, str(call.key()))
        conversations = [each for each in conversations if each.key.raw_id == raw_id]
    return [
        _entry(conversation, item)
        for conversation in conversations
        for item in conversation.items.values()
        if item.kind == kind
    ]


def _entry(conversation: Conversation, item: Item) -> dict[str, object]:
    data = item.asked.data
    entry = {
        **described(item),
        "sessionId": conversation.key.raw_id,
        "requestedAt": requested_at(item),
    }
    if item.kind == "approval":
        more = {"callId": data.get("callId"), "editable": bool(data.get("editable"))}
    else:
        more = {"agent": data.get("agent")}
    return {**entry, **more}


_NO_STORE: Final = {"Cache-Control": "no-store"}
_APPROVALS: Final[Answers] = {200: (ApprovalList,)}
_QUESTIONS: Final[Answers] = {200: (QuestionList,)}


def _decision(path: str, handler: Handler, summary: str, body: type[Input]) -> Endpoint:
    answers: Answers = {200: (TurnAnswer, Taken), 202: (PendingAnswer,)}
    return Endpoint(
        "POST",
        path,
        handler,
        summary,
        Role.DECIDE,
        answers,
        query=DecisionQuery,
        body=body,
        errors=(409, 413, 415, 504),
    )


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/agents/{agent}/approvals",
        list_approvals,
        "List the calls that wait.",
        Role.DECIDE,
        _APPROVALS,
    ),
    Endpoint(
        "GET",
        "/agents/{agent}/sessions/{session}/approvals",
        list_approvals,
        "List the calls of a session that wait.",
        Role.DECIDE,
        _APPROVALS,
    ),
    Endpoint(
        "GET",
        "/agents/{agent}/questions",
        list_questions,
        "List the questions that wait.",
        Role.DECIDE,
        _QUESTIONS,
    ),
    Endpoint(
        "GET",
        "/agents/{agent}/sessions/{session}/questions",
        list_questions,
        "List the questions of a session that wait.",
        Role.DECIDE,
        _QUESTIONS,
    ),
    _decision("/approvals/{item}/approve", approve, "Let a call run.", ApproveBody),
    _decision("/approvals/{item}/deny", deny, "Keep a call from running.", DenyBody),
    _decision("/questions/{item}/answer", answer, "Answer a question.", AnswerBody),
)
