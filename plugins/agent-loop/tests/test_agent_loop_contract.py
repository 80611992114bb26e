from terret_testing.loop_contract import LoopContract


class TestAgentLoop(LoopContract):
    """The default loop keeps the contract of loops."""

    loop = "agent-loop"
