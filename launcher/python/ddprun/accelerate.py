"""`Accelerator(log_with=[ddprun.accelerate.Steps()])`: `accelerator.log(..., step=n)` tells ddprun n."""

from typing import TYPE_CHECKING, Any, Dict, Optional

import ddprun

if TYPE_CHECKING:
    GeneralTracker = Any
else:
    from accelerate.tracking import GeneralTracker


class Steps(GeneralTracker):  # type: ignore[misc]
    """An accelerate tracker that reports the step of each `accelerator.log(..., step=n)`, from every rank.

    A call without `step=` reports nothing.

    >>> Accelerator(log_with=[ddprun.accelerate.Steps()])
    """

    name = "ddprun"
    requires_logging_directory = False
    main_process_only = False  # Each rank says how far it is.
    tracker = None

    def store_init_configuration(self, values: Dict[str, Any]) -> None:
        ddprun.ready()

    def log(self, values: Dict[str, Any], step: Optional[int] = None, **_: Any) -> None:
        if step is not None:
            ddprun.step(step)
