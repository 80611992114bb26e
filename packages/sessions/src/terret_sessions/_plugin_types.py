from ._event_types import declare_event_type

# What plugins write and every reader must be able to load. Their owners may add payload classes.
for _name in (
    "llm/retry",
    "llm/retry-started",
    "compaction/start",
    "compaction/summary",
    "compaction/prune",
    "compaction/end",
    "approval/asked",
    "approval/decided",
):
    declare_event_type(_name)
for _name in (
    "tool/decision",
    "question/asked",
    "question/answered",
    "budget/checked",
    "skill/loaded",
):
    declare_event_type(_name, ignorable=True)
