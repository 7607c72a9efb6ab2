"""Exact binomial ranges."""


def clopper_pearson(hits: float, n: int, prob: float = 0.95) -> tuple[float, float]:
    """Exact confidence interval of a binomial share.

    Hits may be fractional: an experiment whose stages are covered in part counts in part. The
    interval is then that of the beta quantiles, which agrees with the exact one at whole numbers.

    Parameters
    ----------
    hits : float
        Successes, between 0 and `n`.
    n : int
        Trials.
    prob : float
        Least coverage of the interval.

    Returns
    -------
    tuple of float
        Lower and upper end; (0, 1) without a trial. Clopper and Pearson (1934),
        10.1093/biomet/26.4.404.

    Examples
    --------
    >>> low, high = clopper_pearson(9, 10)
    >>> round(low, 3), round(high, 3)
    (0.555, 0.997)
    """
    from scipy.special import betaincinv

    if n == 0:
        return 0.0, 1.0
    tail = (1.0 - prob) / 2.0
    low = float(betaincinv(hits, n - hits + 1.0, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1.0, n - hits, 1.0 - tail)) if hits < n else 1.0
    return low, high
