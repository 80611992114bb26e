"""The service: whose rules apply to an agent, and the gate in front of its calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from terret_agents import (
    PRE_STEP,
    TURN_STOP,
    Agent,
    Enter,
    Reject,
    StepProposal,
    StopQuestion,
    TurnStop,
    clock_of,
)
from terret_context import AnonymousLayers, Context, Effect, Next, Service, ServiceKey
from terret_loader import Loader
from terret_sessions import Denied
from terret_tools import (
    DECIDED,
    PRE_EXECUTE,
    SKIPPED_SIBLING_DENIED,
    Allow,
    Ask,
    Decided,
    Deny,
    Grounds,
    ToolExec,
    Tools,
)
from terret_tools import Decision as Answer

from ._audit import Audit
from ._config import PermissionsConfig
from ._folders import AGENT_FOLDERS, FolderRules
from ._rules import Decision, Rule, RuleSet, Verdict, evaluate, explain
from ._scope import Scope
from ._sources import InlineRules, RuleFile, RuleSource, default_of
from ._warnings import warnings_of

SYSTEM_TOOLS: Final = frozenset({"Skill", "system_ask_user", "system_read_file"})


@dataclass(frozen=True, slots=True)
class _Binding:
    scope: Scope | None
    source: RuleSource | None


@dataclass(frozen=True, slots=True)
class RulesStatus:
    """The rules of an agent as they are in force, and what is wrong with them."""

    scope: Scope
    rules: tuple[Rule, ...]
    default: Decision
    error: str | None
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _Turn:
    """What holds for one turn of one agent."""

    number: int
    rules: tuple[Rule, ...]
    default: Decision
    denied: list[str] = field(default_factory=list)


class Permissions(Service, key="permissions", config=PermissionsConfig, inject=(Tools,)):
    """Allows, denies or asks about tool calls, by rules for tenant, environment, agent and tool."""

    def __init__(self, ctx: Context, config: PermissionsConfig) -> None:
        super().__init__(ctx, config)
        self._config = config
        self._bindings = AnonymousLayers[_Binding]("rules of an agent")
        self._turns = WeakKeyDictionary[Agent, _Turn]()
        self._audit: Audit | None = None
        if config.audit != "off":
            self._audit = Audit(config.audit_folder, config.audit, clock_of(ctx))

    def init(self) -> None:
        ctx = self.ctx
        ctx.on(PRE_STEP, self._begin_step, prepend=True)
        ctx.on(PRE_EXECUTE, self._gate)
        ctx.on(DECIDED, self._settle)
        ctx.on(TURN_STOP, self._stop)
        ctx.inject((AGENT_FOLDERS, Loader), _rules_of_folders)

    async def read(self, path: Path, *, required: bool = False) -> RuleSource:
        """Reads a `permissions.yml`, to be followed; raises `HarnessConfigError`.

        A file that is not there denies everything, unless it is `required`.
        """
        loader = self.ctx.get(Loader)
        if loader is None:
            raise LookupError("rules in a file are read by the loader, which is not there")
        return await RuleFile.read(loader, path, required=required)

    def bind(self, *, scope: Scope | None = None, rules: RuleSource | RuleSet | None) -> Effect:
        """Gives the agents of the caller's scope their own scope and rules."""
        source = InlineRules(rules) if isinstance(rules, RuleSet) else rules
        return self._bindings.add(self.caller, _Binding(scope, source))

    def scope_of(self, agent: Agent) -> Scope:
        """Returns whose rules apply to an agent."""
        scope = self._binding(agent).scope
        return scope or Scope(self._config.tenant, self._config.environment, agent.name)

    def evaluate(self, agent: Agent, tool: str, arguments: object) -> Verdict:
        """Decides about a call as the gate would now; changes nothing."""
        rules, default = self._in_force(agent)
        return evaluate(rules, default, self.scope_of(agent), tool, arguments)

    def explain(self, agent: Agent, tool: str, arguments: object) -> tuple[tuple[Rule, bool], ...]:
        """Returns the rules for a tool in order, and which of them match a call."""
        return explain(self._in_force(agent)[0], self.scope_of(agent), tool, arguments)

    def status(self, agent: Agent) -> RulesStatus:
        """Returns the rules of an agent with their faults and warnings."""
        rules, default = self._in_force(agent)
        source = self._binding(agent).source
        error = source.error if source else None
        schemas = {each.name: each.parameters for each in self.ctx[Tools].schemas(agent)}
        warnings = warnings_of(rules, schemas)
        return RulesStatus(
            self.scope_of(agent), rules, default, str(error) if error else None, warnings
        )

    def _binding(self, agent: Agent) -> _Binding:
        found = self._bindings.collect(agent)
        return found[-1] if found else _Binding(None, None)

    def _in_force(self, agent: Agent) -> tuple[tuple[Rule, ...], Decision]:
        shared, source = self._config.rules, self._binding(agent).source
        if source is not None:
            return (*source.rules.rules, *shared), default_of(source.rules)
        return shared, self._config.default or ("ask" if shared else "deny")

    async def _begin_step(
        self, proposal: StepProposal, call_next: Next[Enter | Reject]
    ) -> Enter | Reject:
        source = self._binding(proposal.agent).source
        if proposal.step == 1 and source is not None:
            before = source.error
            await source.refresh()
            if source.error is not None and source.error is not before:
                self.ctx.logger.warning("rules not taken over", error=str(source.error))
        return await call_next()

    def _turn(self, agent: Agent) -> _Turn:
        number = agent.session.open_turn
        if number is None:  # code that calls a tool for an agent that does not work
            return _Turn(0, *self._in_force(agent))
        turn = self._turns.get(agent)
        if turn is None or turn.number != number:
            turn = self._turns[agent] = _Turn(number, *self._in_force(agent))
        return turn

    async def _gate(self, call: ToolExec, call_next: Next[Answer]) -> Answer:
        agent = call.agent
        if agent is None:
            return await call_next()
        turn = self._turn(agent)
        if turn.denied and call.parent is None:
            names = ", ".join(turn.denied)
            reason = f"skipped: a person denied {names}"
            return Deny(reason, SKIPPED_SIBLING_DENIED, {"denied": list(turn.denied)})
        refusal = self._validate(call)
        if refusal is not None:
            return refusal
        scope = self.scope_of(agent)
        if self._bypasses(call):
            verdict, source = Verdict("allow", "system tool"), "system"
        else:
            arguments = call.plain_arguments()
            verdict = evaluate(turn.rules, turn.default, scope, call.name, arguments)
            source = "rule" if verdict.rule else "default"
        grounds = Grounds(
            source=source,  # type: ignore[arg-type]  # one of three words
            reason=verdict.reason,
            rule=verdict.rule.title if verdict.rule else None,
        )
        return await _answer(verdict, grounds, scope, call_next)

    def _validate(self, call: ToolExec) -> Deny | None:
        failure = self.ctx[Tools].check(call)
        if failure is None or failure.error is None:
            return None
        message, info = failure.error.message, failure.error.info
        grounds = Grounds(source="validation", reason=message)
        data: Mapping[str, object] | None = info.data if info else None
        return Deny(f"denied: {message}", failure.code or "DENIED", data, grounds)

    def _bypasses(self, call: ToolExec) -> bool:
        if self._config.gate_system_tools or call.name not in SYSTEM_TOOLS:
            return False
        tools = self.ctx[Tools]
        return tools.get(call.name, call.agent) is tools.get(call.name)

    async def _settle(self, decided: Decided, call_next: Next[Allow | Deny]) -> Allow | Deny:
        decision = await call_next()
        call, agent = decided.exec, decided.exec.agent
        if agent is None or (
            isinstance(decision, Deny) and decision.code == SKIPPED_SIBLING_DENIED
        ):
            return decision
        if isinstance(decision, Deny):
            approval = decision.grounds.approval if decision.grounds else None
            if approval is not None and approval.outcome == "rejected" and call.parent is None:
                self._turn(agent).denied.append(call.name)
            if not decision.reason.startswith("denied: "):
                decision = replace(decision, reason=f"denied: {decision.reason}")
        return await self._record(self.scope_of(agent), call, decision)

    async def _record(self, scope: Scope, call: ToolExec, decision: Allow | Deny) -> Allow | Deny:
        try:
            if self._audit is not None:
                await self._audit.write(scope, call, decision)
        except OSError as error:
            self.ctx.report(error, label="audit of tool decisions")
            if self._config.audit_failure == "deny" and isinstance(decision, Allow):
                reason = "the decision could not be written to the audit"
                grounds = Grounds(source="hook", reason=reason)
                return Deny(f"denied: {reason}", grounds=grounds)
        return decision

    def _stop(self, question: StopQuestion) -> TurnStop | None:
        turn = self._turns.get(question.agent)
        if turn is None or turn.number != question.turn or not turn.denied:
            return None
        return TurnStop(Denied(tuple(turn.denied)))


def _rules_of_folders(ctx: Context) -> None:
    ctx[AGENT_FOLDERS].add_part(FolderRules(ctx[Loader], ServiceKey("permissions")))


async def _answer(
    verdict: Verdict, grounds: Grounds, scope: Scope, call_next: Next[Answer]
) -> Answer:
    if verdict.decision == "deny":
        return Deny(f"denied: {verdict.reason}", grounds=grounds)
    others = await call_next()
    if not isinstance(others, Allow):
        return others
    if verdict.decision == "allow":
        return Allow(grounds)
    data: dict[str, object] = {"scope": scope.to_wire()}
    if verdict.rule is not None:
        data["rule"] = verdict.rule.title
    editable = verdict.rule is not None and verdict.rule.editable
    return Ask(verdict.reason, grounds, editable=editable, data=data)
