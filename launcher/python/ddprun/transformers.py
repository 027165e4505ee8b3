"""`Trainer(..., callbacks=[ddprun.transformers.Steps()])`: transformers' Trainer tells ddprun its steps."""

from typing import TYPE_CHECKING, Any

import ddprun

if TYPE_CHECKING:
    TrainerCallback = Any
else:
    from transformers import TrainerCallback


class Steps(TrainerCallback):  # type: ignore[misc]
    """A callback of transformers' Trainer that reports each optimizer step, and evaluation and saving as phases.

    >>> Trainer(..., callbacks=[ddprun.transformers.Steps()])
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.evaluated = 0
        ddprun.resume(state.global_step, of=state.max_steps if state.max_steps > 0 else None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        ddprun.step(state.global_step, "train")

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.evaluated = getattr(self, "evaluated", 0) + 1
        ddprun.phase(f"evaluate {self.evaluated}")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        ddprun.phase("saved")
