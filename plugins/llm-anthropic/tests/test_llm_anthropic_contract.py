"""The contract of adapters of servers."""

from terret_testing import messages_answer
from terret_testing.adapter_contract import ServerAdapterContract


class TestAnthropic(ServerAdapterContract):
    """M-130, M-131: the whole suite."""

    plugin = "llm-anthropic"
    answer = staticmethod(messages_answer)
