"""A script that looks at LOCAL_RANK alone, to choose its device."""

import os

from report import report

local_rank = int(os.environ["LOCAL_RANK"])
report(device=f"cuda:{local_rank}")
