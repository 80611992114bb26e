"""The contract of adapters as test suites that any adapter can run.

```python
from terret_testing import chat_answer
from terret_testing.adapter_contract import ServerAdapterContract


class TestMyServer(ServerAdapterContract):
    plugin = "llm-mine"
    answer = staticmethod(chat_answer)
```

That is for a plugin that speaks to a server: `plugin` is the name of an installed one, or the
plugin itself, and takes `baseUrl`, `apiKey`, `provider`, `firstByteTimeout` and `idleTimeout`;
`answer` makes a good answer of its wire from texts and calls. An adapter inside the process runs
`AdapterContract` and says with `running()` how to reach it. Tests run on asyncio and on trio.
"""

from ._grammar import grammar_faults
from ._scopes import check_no_scope_is_left
from ._server import ServerAdapterContract
from ._streams import AdapterContract, adapter_running

__all__ = [
    "AdapterContract",
    "ServerAdapterContract",
    "adapter_running",
    "check_no_scope_is_left",
    "grammar_faults",
]
