"""The contract of adapters of servers."""

from terret_testing import chat_answer
from terret_testing.adapter_contract import ServerAdapterContract


class TestOpenAi(ServerAdapterContract):
    """M-130, M-131: the whole suite."""

    plugin = "llm-openai"
    answer = staticmethod(chat_answer)
