"""How often the wait of the first, cold requests enters a statistic."""

import numpy as np

from tailcast.latency_model import WARM_UP_REQUESTS
from tailcast.request import RequestTable


def warm_up_count(requests: RequestTable, stage: int | None, quantile: float | None) -> float:
    """Multiple of the warm-up wait that a statistic of a stage holds.

    The first `tailcast.latency_model.WARM_UP_REQUESTS` of a run wait; they carry their share into a
    mean, and a whole wait into every quantile that lies among them.

    Parameters
    ----------
    requests : RequestTable
        What was sent, by arrival; groups are stages.
    stage : int or None
        Load stage, None for the whole run.
    quantile : float or None
        Probability of the quantile, None for the mean.

    Returns
    -------
    float
        Between 0 and 1.
    """
    own = requests.group == stage if stage is not None else np.ones(len(requests), dtype=np.bool_)
    if not own.any():
        return 0.0
    cold = own & (np.arange(len(requests)) < WARM_UP_REQUESTS)
    share = float(cold.sum() / own.sum())
    if quantile is None:
        return share
    return float(share > 1.0 - quantile)
