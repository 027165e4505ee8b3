"""`Trainer(callbacks=[ddprun.lightning.Steps()])`: a Lightning training tells ddprun its steps."""

import sys
from typing import TYPE_CHECKING, Any

import ddprun

if TYPE_CHECKING:
    Callback = Any
elif "lightning.pytorch" in sys.modules or "pytorch_lightning" not in sys.modules:
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        from pytorch_lightning.callbacks import Callback
else:
    from pytorch_lightning.callbacks import Callback


class Steps(Callback):  # type: ignore[misc]
    """A Lightning callback that reports the optimizer step after each batch, and validation and checkpoints as phases.

    >>> Trainer(callbacks=[ddprun.lightning.Steps()])
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        steps = trainer.estimated_stepping_batches  # Infinity: for ever.
        ddprun.resume(trainer.global_step, of=int(steps) if 0 < steps < 1 << 63 else None)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        ddprun.step(trainer.global_step, "train")

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                                batch_idx: int, dataloader_idx: int = 0) -> None:
        ddprun.phase(f"validate {batch_idx + 1}")

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        ddprun.phase("checkpoint")
