"""`Accelerator(log_with=[ddprun.accelerate.Steps()])`: `accelerator.log(..., step=n)` tells ddprun n."""

from typing import TYPE_CHECKING, Any, Dict, Optional

import ddprun

if TYPE_CHECKING:
    GeneralTracker = Any
else:
    from accelerate.tracking import GeneralTracker


class Steps(GeneralTracker):  # type: ignore[misc]
    """A tracker that sends STEP, from every rank; without `step=` in the call nothing is sent."""

    name = "ddprun"
    requires_logging_directory = False
    main_process_only = False  # Each rank says how far it is.
    tracker = None

    def store_init_configuration(self, values: Dict[str, Any]) -> None:
        ddprun.ready()

    def log(self, values: Dict[str, Any], step: Optional[int] = None, **_: Any) -> None:
        if step is not None:
            ddprun.step(step)
