"""ddprun from Python: what a worker tells its launcher, and launches from scripts and notebooks.

In a worker:

>>> import ddprun
>>> for number, batch in enumerate(loader, 1):
...     train(batch)
...     ddprun.step(number)           # progress, for `ddprun status` and --hang-timeout
>>> ddprun.phase("checkpoint", within=600)
>>> ddprun.publish("model.new", "model.bin")  # no older world of this run can replace it
>>> memory = ddprun.fdstore("state") or ddprun.fdstore("state", 1 << 20)  # outlives this worker

In a script or a notebook:

>>> results = ddprun.run(train, 2, args=(data,), max_restarts=3)

Outside of ddprun `step`, `phase`, `ready` and `resume` do nothing, so a program needs no case of its
own. Nothing here imports more than the standard library; callbacks for Lightning, transformers and
accelerate are in the modules of those names.
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
