"""Compiled loops of `sensitivity`; imported only there, because numba is slow to import.

One pass over the states of a window keeps running sums of the weights, scaled down whenever
they grow beyond 1e200; the waiting room is a closed geometric tail. Slopes of a mean follow
from d E[f] = Cov(f, d log weight) + E[df], for the logs of alpha, beta, gamma and the rate.
"""

import math

import numba as nb
import numpy as np

from tailcast.queueing.server import Floats

_LARGE = 1e200
_NEGLIGIBLE = 1e-20
_NEVER = -1e300
_SERIES_BELOW = 0.05
_GAP_FLOOR = 1e-9

# places in `sums`: weights of the states 1..B, these x n and x chunks; the idle state; the
# states 0..B-1; the last state; and the ratio of the last step
_BUSY, _BUSY_N, _BUSY_C, _IDLE, _BEFORE, _LAST, _RATIO = range(7)
# rows of `slope_sums`: d log weight of the last state; sums of weight, weight x n and weight x
# chunks times d log weight; and the last step's part of d log weight
_D_LAST, _D_BUSY, _D_BUSY_N, _D_BUSY_C, _D_STEP = range(5)
# places in `mix`: probability of the tail, per unit of busy weight, and that an arrival is lost;
# mean and mean square of the tail's step; the part of arrivals admitted
_TAIL, _SCALE, _FULL, _STEP, _STEP2, _ADMITTED, _P_IDLE = range(7)
# places in `means`: requests in service, waiting time, service time, chunks, time of the others
# in a step, work of a request in a step, and tokens read in a request's life
_IN, _WAIT, _SERVICE, _CHUNKS, _OTHERS, _WORK, _READS = range(7)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _tail_moments(x: float, n: float) -> tuple[float, float, float]:
    """Log total, mean and mean square of j under the weights exp(x j), j = 0..n-1."""
    a = abs(x)
    na = n * a
    if na < _SERIES_BELOW:
        log_total = math.log(n) if a == 0.0 else math.log(math.expm1(-na) / math.expm1(-a))
        mean = (n - 1.0) / 2.0 - a * (n * n - 1.0) / 12.0 + a**3 * (n**4 - 1.0) / 720.0
        spread = (n * n - 1.0) / 12.0 - a * a * (n**4 - 1.0) / 240.0
        spread += a**4 * (n**6 - 1.0) / 6048.0
    else:
        log_total = math.log(math.expm1(-na) / math.expm1(-a))
        mean = 1.0 / math.expm1(a) if a < 700.0 else 0.0
        half = math.sinh(0.5 * a) if a < 700.0 else 0.0
        spread = 0.25 / (half * half) if half > 0.0 else 0.0
        if na < 700.0:
            mean -= n / math.expm1(na)
            half = math.sinh(0.5 * na)
            spread -= 0.25 * n * n / (half * half)
    if x > 0.0:
        mean = n - 1.0 - mean
        log_total += (n - 1.0) * a
    return log_total, mean, spread + mean * mean


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _set_parts(row: Floats, alpha: float, beta: float, rate: float) -> None:
    row[0], row[1], row[2], row[3] = alpha, beta, rate - alpha - beta, rate


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _sum_states(
    costs: Floats, shape: Floats, rate: float, chunks: Floats, sums: Floats, slope_sums: Floats
) -> None:
    """Fill `sums` and `slope_sums` over the states 0..B.

    The four parts of a step of the log weight are shares of the service time for alpha, beta and
    gamma, which add up to one, and one for the rate; so gamma's sums are those of the rate less
    the others'. Sums are local names, because the compiler keeps only those in registers.
    """
    prompt, output = shape[0], shape[1]
    computed = costs[1] * (prompt + output)
    decode_reads = costs[2] * output * (prompt + (output + 1.0) / 2.0)
    half_prompt = 0.5 * costs[2] * prompt
    weight, idle, before, busy, busy_n, busy_c = 1.0, 1.0, 0.0, 0.0, 0.0, 0.0
    n_n, n_c = 0.0, 0.0
    last_a, busy_a, n_a, c_a = 0.0, 0.0, 0.0, 0.0
    last_b, busy_b, n_b, c_b = 0.0, 0.0, 0.0, 0.0
    ratio, share_a, share_b = 0.0, 0.0, 0.0
    for state in range(1, chunks.size + 1):
        n, c = float(state), chunks[state - 1]
        own_a, own_b = (c + output) * costs[0], n * computed
        service = own_a + own_b + n * (half_prompt * (c + 1.0) + decode_reads)
        share = 1.0 / service
        share_a, share_b = own_a * share, own_b * share
        ratio = rate * service / n
        before += weight
        weight *= ratio
        weight_n, weight_c = weight * n, weight * c
        last_a += share_a
        last_b += share_b
        busy += weight
        busy_n += weight_n
        busy_c += weight_c
        n_n += weight_n * n
        n_c += weight_c * n
        busy_a += weight * last_a
        busy_b += weight * last_b
        n_a += weight_n * last_a
        n_b += weight_n * last_b
        c_a += weight_c * last_a
        c_b += weight_c * last_b
        if weight < _NEGLIGIBLE * busy and ratio < 1.0 and c == chunks[chunks.size - 1]:
            # ratios fall with n while chunks stay: nothing that counts comes after
            weight = 0.0
            full = (c + output) * costs[0] / chunks.size + computed
            ratio = rate * (full + half_prompt * (c + 1.0) + decode_reads)
            break
        if weight > _LARGE:
            weight, idle, before = weight / _LARGE, idle / _LARGE, before / _LARGE
            busy, busy_n, busy_c = busy / _LARGE, busy_n / _LARGE, busy_c / _LARGE
            n_n, n_c, busy_a, busy_b = n_n / _LARGE, n_c / _LARGE, busy_a / _LARGE, busy_b / _LARGE
            n_a, n_b, c_a, c_b = n_a / _LARGE, n_b / _LARGE, c_a / _LARGE, c_b / _LARGE
    sums[_BUSY], sums[_BUSY_N], sums[_BUSY_C] = busy, busy_n, busy_c
    sums[_IDLE], sums[_BEFORE], sums[_LAST], sums[_RATIO] = idle, before, weight, ratio
    last = float(chunks.size)
    _set_parts(slope_sums[_D_LAST], last_a, last_b, last)
    _set_parts(slope_sums[_D_BUSY], busy_a, busy_b, busy_n)
    _set_parts(slope_sums[_D_BUSY_N], n_a, n_b, n_n)
    _set_parts(slope_sums[_D_BUSY_C], c_a, c_b, n_c)
    _set_parts(slope_sums[_D_STEP], share_a, share_b, 1.0)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _log_sum(one: float, other: float) -> float:
    high = max(one, other)
    return high + math.log(math.exp(one - high) + math.exp(other - high))


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _mix_tail(sums: Floats, n_tail: int, mix: Floats) -> None:
    """Fill `mix`: weigh the explicit states against the waiting room."""
    x = math.log(sums[_RATIO])
    log_idle = math.log(sums[_IDLE]) if sums[_IDLE] > 0.0 else _NEVER
    log_last = math.log(sums[_LAST]) if sums[_LAST] > 0.0 else _NEVER
    log_z = _log_sum(math.log(sums[_BUSY]), log_idle)
    log_tail = _NEVER
    mix[_STEP] = 0.0
    mix[_STEP2] = 0.0
    if n_tail > 0:
        log_sum, first, second = _tail_moments(x, float(n_tail))
        # the tail's steps are 1..Q, the moments above those of 0..Q-1
        mix[_STEP] = 1.0 + first
        mix[_STEP2] = 1.0 + 2.0 * first + second
        log_tail = log_last + x + log_sum
        log_z = _log_sum(log_z, log_tail)
    mix[_TAIL] = math.exp(log_tail - log_z)
    mix[_P_IDLE] = math.exp(log_idle - log_z)
    mix[_FULL] = math.exp(log_last + n_tail * x - log_z)
    mix[_SCALE] = math.exp(math.log(sums[_BUSY]) - log_z) / sums[_BUSY]
    # all states but the last, without a difference of near-equal numbers in overload
    mix[_ADMITTED] = mix[_SCALE] * sums[_BEFORE]
    if n_tail > 0:
        mix[_ADMITTED] += math.exp(log_tail - x - log_z)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fill_values(
    costs: Floats,
    shape: Floats,
    rate: float,
    chunks: Floats,
    sums: Floats,
    mix: Floats,
    means: Floats,
    values: Floats,
) -> None:
    """Fill `means` and the logs of TTFT, ITL, throughput, occupancy, and the waiting share."""
    prompt, output = shape[0], shape[1]
    last_c = chunks[chunks.size - 1]
    some = mix[_SCALE] * sums[_BUSY] + mix[_TAIL]
    c = (mix[_SCALE] * sums[_BUSY_C] + mix[_TAIL] * last_c) / some
    throughput = rate * mix[_ADMITTED]
    means[_IN] = mix[_SCALE] * sums[_BUSY_N] + mix[_TAIL] * chunks.size
    means[_WAIT] = mix[_TAIL] * mix[_STEP] / throughput
    means[_SERVICE] = means[_IN] / throughput
    means[_CHUNKS] = c
    means[_READS] = prompt * (c + 1.0) / 2.0 + output * (prompt + (output + 1.0) / 2.0)
    total = costs[1] * (prompt + output) + costs[2] * means[_READS]
    means[_WORK] = total / (c + output)
    means[_OTHERS] = max(0.0, costs[0] + (means[_IN] - 1.0) * means[_WORK])
    own = prompt * (costs[1] + costs[2] * (c + 1.0) / 2.0)
    prefill = own + c * means[_OTHERS]
    gap = max((means[_SERVICE] - prefill) / output, _GAP_FLOOR * means[_SERVICE])
    ttft = means[_WAIT] + prefill + gap
    values[0] = math.log(ttft)
    values[1] = math.log(gap)
    values[2] = math.log(throughput)
    values[3] = math.log(means[_IN])
    values[4] = means[_WAIT] / ttft


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fill_slopes(
    costs: Floats,
    shape: Floats,
    chunks: Floats,
    sums: Floats,
    slope_sums: Floats,
    mix: Floats,
    n_tail: int,
    means: Floats,
    values: Floats,
    slopes: Floats,
) -> None:
    """Fill the derivatives of the four logs."""
    prompt, output = shape[0], shape[1]
    scale, tail, in_service = mix[_SCALE], mix[_TAIL], means[_IN]
    some = scale * sums[_BUSY] + tail
    c, last_c = means[_CHUNKS], chunks[chunks.size - 1]
    throughput = math.exp(values[2])
    ttft, gap = math.exp(values[0]), math.exp(values[1])
    floored = gap <= _GAP_FLOOR * means[_SERVICE] * (1.0 + 1e-12)
    work_c = (costs[2] * prompt / 2.0 - means[_WORK]) / (c + output)
    for k in range(4):
        d_last, d_step = slope_sums[_D_LAST, k], slope_sums[_D_STEP, k]
        d_tail = d_last + mix[_STEP] * d_step
        d_mean = scale * slope_sums[_D_BUSY, k] + tail * d_tail
        d_in = scale * slope_sums[_D_BUSY_N, k] + tail * chunks.size * d_tail - in_service * d_mean
        d_queue = tail * (mix[_STEP] * (d_last - d_mean) + mix[_STEP2] * d_step)
        d_c = scale * slope_sums[_D_BUSY_C, k] + tail * last_c * d_tail - c * some * d_mean
        d_c = (d_c - c * mix[_P_IDLE] * d_mean) / some
        d_throughput = -mix[_FULL] * (d_last + n_tail * d_step - d_mean) / mix[_ADMITTED]
        if k == 3:
            d_throughput += 1.0
        d_service = d_in / throughput - means[_SERVICE] * d_throughput
        d_wait = d_queue / throughput - means[_WAIT] * d_throughput
        d_prefill = prompt * costs[2] / 2.0 * d_c
        d_work = work_c * d_c
        d_others = 0.0
        if k == 0:
            d_others = costs[0]
        elif k == 1:
            d_work += costs[1] * (prompt + output) / (c + output)
            d_prefill += prompt * costs[1]
        elif k == 2:
            d_work += costs[2] * means[_READS] / (c + output)
            d_prefill += prompt * costs[2] * (c + 1.0) / 2.0
        if means[_OTHERS] > 0.0:
            d_others += (in_service - 1.0) * d_work + means[_WORK] * d_in
            d_prefill += c * d_others + means[_OTHERS] * d_c
        d_gap = _GAP_FLOOR * d_service if floored else (d_service - d_prefill) / output
        slopes[0, k] = (d_wait + d_prefill + d_gap) / ttft
        slopes[1, k] = d_gap / gap
        slopes[2, k] = d_throughput
        slopes[3, k] = d_in / in_service


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def window_latencies(
    log_numbers: Floats,
    shape: Floats,
    rate: float,
    chunks: Floats,
    n_tail: int,
    scratch: Floats,
    value: Floats,
    slope: Floats,
) -> None:
    """Fill the values and slopes of one draw in one window.

    Parameters
    ----------
    log_numbers : ndarray, shape (3,)
        Logs of alpha, beta and gamma in seconds.
    shape : ndarray, shape (2,)
        Mean prompt and output tokens.
    rate : float
        Arrivals in requests/s.
    chunks : ndarray, shape (B,)
        Prefill steps with 1..B requests in the batch.
    n_tail : int
        Places in the waiting room.
    scratch : ndarray, shape (9, 7)
        Overwritten.
    value : ndarray, shape (5,)
        Filled, see `fill_latencies`.
    slope : ndarray, shape (4, 4)
        Filled.
    """
    sums, mix, means, costs = scratch[0], scratch[1], scratch[2], scratch[3]
    slope_sums = scratch[4:9]
    for k in range(3):
        costs[k] = math.exp(log_numbers[k])
    _sum_states(costs, shape, rate, chunks, sums, slope_sums)
    _mix_tail(sums, n_tail, mix)
    _fill_values(costs, shape, rate, chunks, sums, mix, means, value)
    _fill_slopes(costs, shape, chunks, sums, slope_sums, mix, n_tail, means, value, slope)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fill_latencies(
    log_numbers: Floats,
    tokens_in: Floats,
    tokens_out: Floats,
    rate: Floats,
    chunks: Floats,
    n_tail: int,
    values: Floats,
    slopes: Floats,
) -> None:
    """Fill the values and slopes of every draw and window; see `sensitivity.log_latencies`.

    Parameters
    ----------
    log_numbers : ndarray, shape (n_draw, 3)
        Logs of alpha, beta and gamma in seconds.
    tokens_in, tokens_out : ndarray, shape (n_window,)
        Mean tokens.
    rate : ndarray, shape (n_draw, n_window)
        Arrivals in requests/s.
    chunks : ndarray, shape (n_window, B)
        Prefill steps with 1..B requests in the batch.
    n_tail : int
        Places in the waiting room.
    values : ndarray, shape (n_draw, n_window, 5)
        Filled: logs of TTFT, ITL, throughput and occupancy, and the share of TTFT spent waiting.
    slopes : ndarray, shape (n_draw, n_window, 4, 4)
        Filled: derivatives of the logs in the logs of alpha, beta, gamma and the rate.
    """
    scratch, shape = np.empty((9, 7)), np.empty(2)
    for draw in range(log_numbers.shape[0]):
        for window in range(tokens_in.size):
            shape[0] = tokens_in[window]
            shape[1] = tokens_out[window]
            window_latencies(
                log_numbers[draw],
                shape,
                rate[draw, window],
                chunks[window],
                n_tail,
                scratch,
                values[draw, window],
                slopes[draw, window],
            )
