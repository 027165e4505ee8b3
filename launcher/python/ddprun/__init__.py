"""ddprun from Python: a worker reports its progress, and a script or notebook starts workers.

In a worker:

>>> import ddprun
>>> ddprun.resume(start, of=last)               # the state is loaded
>>> for number in range(start + 1, last + 1):
...     train()
...     ddprun.step(number)                     # progress, for `ddprun status` and --hang-timeout
>>> ddprun.phase("checkpoint", within=600)      # the next progress may take ten minutes
>>> ddprun.publish("model.new", "model.bin")    # no older world of this run can replace it
>>> memory = ddprun.fdstore("state") or ddprun.fdstore("state", 1 << 20)  # outlives this worker

In a script or a notebook:

>>> results = ddprun.run(train, 2, args=(data,), max_restarts=3)

Outside of ddprun `step`, `phase`, `ready`, `resume` and `save_signal` do nothing, so the same program also runs without
it. The package needs only the standard library. The modules `ddprun.lightning`, `ddprun.transformers` and
`ddprun.accelerate` have callbacks for these libraries.
"""

from ddprun._executable import executable
from ddprun._notify import phase, ready, resume, save_signal, step
from ddprun._publish import Superseded, publish
from ddprun._run import RunError, run
from ddprun._store import fdstore, fdstore_remove

__all__ = [
    "RunError", "Superseded", "executable", "fdstore", "fdstore_remove", "phase", "publish", "ready",
    "resume", "run", "save_signal", "step",
]
