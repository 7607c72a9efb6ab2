"""Three numbers from one window, in closed form: the guesses that the published tuners start at."""

from tailcast.queueing.server import ThreeNumbers, three_numbers_ms
from tailcast.queueing.windows import Window

ALPHA_SHARE = 0.9  # of ITL taken as overhead where nothing else is known
WVA_DEFAULT = three_numbers_ms(5.0, 0.05, 5e-5)


def share_guess(window: Window, share: float = ALPHA_SHARE) -> ThreeNumbers | None:
    """Guess with a fixed share of ITL as overhead; the batch is ignored.

    Parameters
    ----------
    window : Window
        One measurement.
    share : float
        Part of ITL taken as overhead.

    Returns
    -------
    ThreeNumbers or None
        None where a number would not be positive.
    """
    alpha = share * window.itl
    sum_of_slopes = (window.ttft - alpha) / window.tokens_in if window.tokens_in > 0 else -1.0
    context = window.tokens_in + (window.tokens_out + 1.0) / 2.0 - 1.0
    if sum_of_slopes < 0 or context <= 0:
        return None
    gamma = (window.itl - alpha - sum_of_slopes) / context
    return _positive(alpha, sum_of_slopes - gamma, gamma)


def seed_guess(window: Window, seed: ThreeNumbers) -> ThreeNumbers:
    """Guess that keeps gamma of a seed and solves for alpha and beta; the batch is ignored.

    Parameters
    ----------
    window : Window
        One measurement.
    seed : ThreeNumbers
        Scalars.

    Returns
    -------
    ThreeNumbers
        The seed itself where a number would not be positive.
    """
    gamma = float(seed.gamma)
    if window.tokens_in <= 1:
        return seed
    decode_reads = (window.tokens_out + 1.0) / 2.0
    beta = (window.ttft - window.itl + gamma * decode_reads) / (window.tokens_in - 1.0)
    alpha = window.itl - beta - gamma * (window.tokens_in + decode_reads)
    return _positive(alpha, beta, gamma) or seed


def _positive(alpha: float, beta: float, gamma: float) -> ThreeNumbers | None:
    if min(alpha, beta, gamma) <= 0:
        return None
    return ThreeNumbers(alpha=alpha, beta=beta, gamma=gamma)
