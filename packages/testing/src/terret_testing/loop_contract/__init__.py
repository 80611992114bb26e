"""The contract of agent loops as a test suite that any loop can run.

```python
from terret_testing.loop_contract import LoopContract


class TestMyLoop(LoopContract):
    loop = "my-loop"
```

`loop` is the name of an installed plugin that sets the factory of agents, the plugin itself, or a
pair of it and its config. A test names the rows of the behaviour checklist that it proves. A loop
to which models speak in another way than by tool calls says so with a `Dialect`; rows that cannot
hold for a loop are listed, with the reason, in `not_applicable`. A test that hangs fails after
`patience` seconds.
"""

from ._aborting import Aborting
from ._admitting import Admitting
from ._answering import Answering
from ._calling import Calling
from ._cancelling import Cancelling
from ._chapter import Dialect
from ._creating import Creating
from ._ending import Ending
from ._entering import Entering
from ._failing import Failing
from ._inbox import InboxRules
from ._interrupting import Interrupting
from ._maintaining import Maintaining
from ._policies import Policies
from ._prompting import Prompting
from ._requesting import Requesting
from ._resuming import Resuming
from ._routing import Routing
from ._steering import Steering
from ._stopping import Stopping
from ._streaming import Streaming
from ._surviving import Surviving
from ._turns import Turns

__all__ = ["Dialect", "LoopContract"]


class LoopContract(
    Turns,
    InboxRules,
    Steering,
    Entering,
    Calling,
    Aborting,
    Answering,
    Stopping,
    Policies,
    Cancelling,
    Interrupting,
    Failing,
    Streaming,
    Prompting,
    Requesting,
    Routing,
    Maintaining,
    Creating,
    Resuming,
    Surviving,
    Admitting,
    Ending,
):
    """Every row that a loop has to keep, whoever wrote it."""
