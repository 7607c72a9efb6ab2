"""Compiled log density and gradient of the hierarchy; reverse mode written out by hand.

It is the density of the model that `tailcast.inference.graph.build_model` states in PyMC, term by
term; a test holds value and gradient equal. PyTensor needs minutes to compile a new graph and a
millisecond to evaluate it; this needs neither, so a posterior can be refitted for every trace.
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

UNFOLDED = 4.0
"""Prior median of the sampled excess: softplus is straight from about 1 upwards."""

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Tables(NamedTuple):
    """All that the density needs to know about model and evidence.

    Items are runs first, then step sources; shapes use n_item, n_free (sampled coefficients),
    n_all (all coefficients), n_offset, n_noise, n_scale, n_effect.
    """

    n_offset: int
    excess_sd: Array  # (n_free,)
    unfolded: Array  # (n_free,) prior median of each sampled excess
    base: Array  # (n_free,) (centre - floor) / unfolded
    fixed: Array  # (n_all,) floor, or the value of a fixed coefficient
    column: Index  # (n_free,) place of each free coefficient among all
    offset: Index  # (n_item, n_free, n_group) place among the offsets, -1 for none
    share: Array  # (n_free, n_group) log units per standardised offset
    noise_centre: Array  # (n_noise,)
    noise_sd: Array  # (n_noise,)
    scale_centre: Array  # (n_scale,)
    scale_sd: Array  # (n_scale,)
    effect_part: Array  # (n_effect, n_scale) share of each scale's variance
    effect_own: Array  # (n_effect,) fixed part of the scale
    effect_nu: Array  # (n_effect,) degrees of freedom, 0 for normal
    item_effect: Index  # (n_item, n_slot) effects that multiply the step clock, -1 for none
    matrix: Array  # (n_run, n_effective, n_all)
    pad: Array  # (n_run, n_effective)
    in_clock: Array  # (n_run, n_effective)
    latent: Array  # (n_run, n_effective) which numbers are a run's own unknown
    latent_effect: Index  # (n_run,) effect that moves them, -1 for none
    centre: Array  # (n_run, n_effective)
    spread: Array  # (n_run, n_effective)
    reach: float
    weights: Array  # (n_output, 1 + n_effective + n_pair)
    residual: Array  # (n_output,)
    run: Index  # (n_output,)
    overhead: Array  # (n_output, n_all) how often each request overhead enters
    output_effect: Index  # (n_output, n_slot) effects on the log of the summary, -1 for none
    output_noise: Index  # (n_output,)
    output_log: Array  # (n_output,) observed
    output_weight: Array  # (n_output,) power of each likelihood term
    clock: Array  # (n_row, n_all)
    row_overhead: Array  # (n_row, n_all)
    row_item: Index  # (n_row,)
    row_noise: Index  # (n_row,)
    row_log: Array  # (n_row,)
    row_weight: Array  # (n_row,)
    nu: float


def _jit(function: Any) -> Any:
    return numba.njit(
        cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract", "nsz"}
    )(function)


@_jit
def _student(y: float, mu: float, sigma: float, nu: float) -> tuple[float, float, float]:
    """Student-t log density without its constant, and its slopes in mean and scale."""
    r = (y - mu) / sigma
    pull = (nu + 1.0) / (nu + r * r)
    value = -math.log(sigma) - 0.5 * (nu + 1.0) * math.log1p(r * r / nu)
    return value, pull * r / sigma, (pull * r * r - 1.0) / sigma


@_jit
def _constant(nu: float) -> float:
    return math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)


@_jit
def _coefficients(x: Array, t: Any, rise: Array, beta: Array) -> None:
    """Coefficients of every item, and their derivative to the log excess."""
    n_item, n_free, n_group = t.offset.shape
    for i in range(n_item):
        beta[i, :] = t.fixed
    for k in range(n_free):
        v = x[k]
        excess = v + math.log1p(math.exp(-v)) if v > 0 else math.log1p(math.exp(v))
        base = t.base[k] * excess
        for i in range(n_item):
            log = 0.0
            for g in range(n_group):
                place = t.offset[i, k, g]
                if place >= 0:
                    log += t.share[k, g] * x[n_free + place]
            rise[i, k] = base if log == 0.0 else base * math.exp(log)
            beta[i, t.column[k]] += rise[i, k]


@_jit
def _features(r: int, t: Any, log: Array, z: Array, phi: Array) -> None:
    """Folded inputs and quadratic features of one run's emulators."""
    n = len(z)
    phi[0] = 1.0
    for m in range(n):
        z[m] = t.reach * math.tanh((log[m] - t.centre[r, m]) / t.spread[r, m] / t.reach)
        phi[1 + m] = z[m]
    place = 1 + n
    for a in range(n):
        for b in range(a, n):
            phi[place] = z[a] * z[b]
            place += 1


@_jit
def _run_back(
    r: int, t: Any, z: Array, dphi: Array, effective: Array, dbeta: Array, deffect: Array
) -> float:
    """Slope of one run's features carried back to coefficients; returns the slope in speed."""
    n = len(z)
    dspeed = 0.0
    dz = dphi[1 : 1 + n].copy()
    place = 1 + n
    for a in range(n):
        for b in range(a, n):
            dz[a] += dphi[place] * z[b]
            dz[b] += dphi[place] * z[a]
            place += 1
    for m in range(n):
        folded = z[m] / t.reach
        dlog = dz[m] * (1.0 - folded * folded) / t.spread[r, m]
        dspeed += dlog * t.in_clock[r, m]
        if t.latent_effect[r] >= 0:
            deffect[t.latent_effect[r]] += dlog * t.latent[r, m]
        slope = dlog / effective[m]
        for c in range(dbeta.shape[1]):
            dbeta[r, c] += slope * t.matrix[r, m, c]
    return dspeed


@_jit
def _runs(
    t: Any,
    effects: Array,
    sigma: Array,
    speed: Array,
    beta: Array,
    dbeta: Array,
    dspeed: Array,
    deffect: Array,
    dsigma: Array,
) -> float:
    """Log likelihood of all emulated summaries; slopes are added to the last four arrays."""
    total = 0.0
    n_run, n_effective, n_all = t.matrix.shape
    n_output, n_feature = t.weights.shape
    effective, log = np.empty(n_effective), np.empty(n_effective)
    z, phi, dphi = np.empty(n_effective), np.empty(n_feature), np.empty(n_feature)
    constant = _constant(t.nu)
    o = 0
    for r in range(n_run):
        for m in range(n_effective):
            value = t.pad[r, m]
            for c in range(n_all):
                value += t.matrix[r, m, c] * beta[r, c]
            effective[m] = value
            log[m] = math.log(value) + t.in_clock[r, m] * speed[r]
            if t.latent_effect[r] >= 0:
                log[m] += t.latent[r, m] * effects[t.latent_effect[r]]
        _features(r, t, log, z, phi)
        dphi[:] = 0.0
        while o < n_output and t.run[o] == r:
            total += _output(o, r, t, effects, sigma, beta, phi, dphi, dbeta, deffect, dsigma)
            total += constant * t.output_weight[o]
            o += 1
        dspeed[r] += _run_back(r, t, z, dphi, effective, dbeta, deffect)
    return total


@_jit
def _output(
    o: int,
    r: int,
    t: Any,
    effects: Array,
    sigma: Array,
    beta: Array,
    phi: Array,
    dphi: Array,
    dbeta: Array,
    deffect: Array,
    dsigma: Array,
) -> float:
    mean, extra = 0.0, 0.0
    for f in range(len(phi)):
        mean += t.weights[o, f] * phi[f]
    for c in range(beta.shape[1]):
        extra += t.overhead[o, c] * beta[r, c]
    inner = math.exp(mean)
    mu = math.log(inner + extra)
    for s in range(t.output_effect.shape[1]):
        if t.output_effect[o, s] >= 0:
            mu += effects[t.output_effect[o, s]]
    noise = sigma[t.output_noise[o]]
    width = math.sqrt(noise * noise + t.residual[o] * t.residual[o])
    value, dmu, dwidth = _student(t.output_log[o], mu, width, t.nu)
    weight = t.output_weight[o]
    dmu *= weight
    dsigma[t.output_noise[o]] += weight * dwidth * noise / width
    for s in range(t.output_effect.shape[1]):
        if t.output_effect[o, s] >= 0:
            deffect[t.output_effect[o, s]] += dmu
    per_second = dmu / (inner + extra)
    for f in range(len(phi)):
        dphi[f] += per_second * inner * t.weights[o, f]
    for c in range(beta.shape[1]):
        dbeta[r, c] += per_second * t.overhead[o, c]
    return float(weight * value)


@_jit
def _rows(
    t: Any, sigma: Array, speed: Array, beta: Array, dbeta: Array, dspeed: Array, dsigma: Array
) -> float:
    """Log likelihood of all step timings."""
    total = 0.0
    constant = _constant(t.nu)
    for j in range(len(t.row_log)):
        i = t.row_item[j]
        factor = math.exp(speed[i])
        inner, extra = 0.0, 0.0
        for c in range(beta.shape[1]):
            inner += t.clock[j, c] * beta[i, c]
            extra += t.row_overhead[j, c] * beta[i, c]
        seconds = factor * inner + extra
        value, dmu, dwidth = _student(t.row_log[j], math.log(seconds), sigma[t.row_noise[j]], t.nu)
        weight = t.row_weight[j]
        total += weight * (value + constant)
        per_second = weight * dmu / seconds
        dsigma[t.row_noise[j]] += weight * dwidth
        dspeed[i] += per_second * factor * inner
        for c in range(beta.shape[1]):
            dbeta[i, c] += per_second * (factor * t.clock[j, c] + t.row_overhead[j, c])
    return total


@_jit
def _effect_prior(x: Array, grad: Array, t: Any, start: int, scale: Array, dscale: Array) -> float:
    """Discrepancies given their scales; `dscale` receives slopes in the log scale."""
    total = 0.0
    n_scale = len(scale)
    for j in range(len(t.effect_nu)):
        variance = t.effect_own[j] * t.effect_own[j]
        for b in range(n_scale):
            variance += t.effect_part[j, b] * scale[b] * scale[b]
        u, s, nu = x[start + j], math.sqrt(variance), t.effect_nu[j]
        if nu == 0.0:
            r = u / s
            total += -0.5 * r * r - math.log(s) - _HALF_LOG_TAU
            grad[start + j] -= r / s
            dlog = r * r - 1.0
        else:
            value, dmu, dwidth = _student(u, 0.0, s, nu)
            total += value + _constant(nu)
            grad[start + j] -= dmu
            dlog = dwidth * s
        for b in range(n_scale):
            dscale[b] += dlog * t.effect_part[j, b] * scale[b] * scale[b] / variance
    return total


@_jit
def _standard_prior(x: Array, grad: Array, t: Any) -> float:
    """Excesses, standardised offsets, log noises and log scales."""
    total = 0.0
    n_free = len(t.excess_sd)
    for k in range(n_free):
        v, s = x[k], t.excess_sd[k]
        rising = 1.0 / (1.0 + math.exp(-v))
        excess = v + math.log1p(math.exp(-v)) if v > 0 else math.log1p(math.exp(v))
        r = (math.log(excess) - math.log(t.unfolded[k])) / s
        total += -0.5 * r * r - math.log(excess * s) - _HALF_LOG_TAU + math.log(rising)
        grad[k] += -(1.0 + r / s) / excess * rising + (1.0 - rising)
    stop = n_free + t.n_offset + len(t.noise_centre) + len(t.scale_centre)
    for j in range(n_free, stop):
        total += -0.5 * x[j] * x[j] - _HALF_LOG_TAU
        grad[j] -= x[j]
    return total


@_jit
def _back(x: Array, grad: Array, t: Any, rise: Array, dbeta: Array) -> None:
    """Slopes in the coefficients carried back to excesses and offsets."""
    n_item, n_free, n_group = t.offset.shape
    for k in range(n_free):
        v = x[k]
        excess = v + math.log1p(math.exp(-v)) if v > 0 else math.log1p(math.exp(v))
        inner = 1.0 / (1.0 + math.exp(-v)) / excess
        for i in range(n_item):
            dlog = dbeta[i, t.column[k]] * rise[i, k]
            grad[k] += dlog * inner
            for g in range(n_group):
                if t.offset[i, k, g] >= 0:
                    grad[n_free + t.offset[i, k, g]] += dlog * t.share[k, g]


@_jit
def log_density(x: Array, grad: Array, t: Any) -> float:
    """Log density at an unconstrained point; the gradient is written into `grad`.

    Parameters
    ----------
    x : ndarray, shape (n_parameter,)
        Folded excesses, standardised offsets, log noises, log scales, effects.
    grad : ndarray, shape (n_parameter,)
        Overwritten.
    t : Tables
        Model and evidence.

    Returns
    -------
    float
        Log joint density of parameters and evidence.
    """
    n_item, n_free, _ = t.offset.shape
    n_noise, n_scale, n_all = len(t.noise_centre), len(t.scale_centre), len(t.fixed)
    at_noise = n_free + t.n_offset
    at_scale = at_noise + n_noise
    at_effect = at_scale + n_scale
    grad[:] = 0.0
    rise, beta = np.empty((n_item, n_free)), np.empty((n_item, n_all))
    _coefficients(x, t, rise, beta)
    sigma = t.noise_centre * np.exp(t.noise_sd * x[at_noise:at_scale])
    scale = t.scale_centre * np.exp(t.scale_sd * x[at_scale:at_effect])
    effects = x[at_effect:]
    speed = np.zeros(n_item)
    for i in range(n_item):
        for s in range(t.item_effect.shape[1]):
            if t.item_effect[i, s] >= 0:
                speed[i] += effects[t.item_effect[i, s]]
    dbeta, dspeed = np.zeros((n_item, n_all)), np.zeros(n_item)
    dsigma, dscale = np.zeros(n_noise), np.zeros(n_scale)
    deffect = grad[at_effect:]
    total: float = _runs(t, effects, sigma, speed, beta, dbeta, dspeed, deffect, dsigma)
    total += _rows(t, sigma, speed, beta, dbeta, dspeed, dsigma)
    for i in range(n_item):
        for s in range(t.item_effect.shape[1]):
            if t.item_effect[i, s] >= 0:
                deffect[t.item_effect[i, s]] += dspeed[i]
    _back(x, grad, t, rise, dbeta)
    for j in range(n_noise):
        grad[at_noise + j] += dsigma[j] * sigma[j] * t.noise_sd[j]
    total += _effect_prior(x, grad, t, at_effect, scale, dscale)
    for j in range(n_scale):
        grad[at_scale + j] += dscale[j] * t.scale_sd[j]
    total += _standard_prior(x, grad, t)
    return total


@_jit
def predicted_logs(x: Array, t: Any, output: Array, row: Array) -> None:
    """Mean and scale of the log of every summary and timing at an unconstrained point.

    Parameters
    ----------
    x : ndarray, shape (n_parameter,)
        Unconstrained point.
    t : Tables
        Model and evidence.
    output : ndarray, shape (n_output, 2)
        Overwritten with location and scale of each summary's Student-t.
    row : ndarray, shape (n_row, 2)
        The same of each step timing.
    """
    n_item, n_free, _ = t.offset.shape
    at_noise = n_free + t.n_offset
    at_effect = at_noise + len(t.noise_centre) + len(t.scale_centre)
    rise, beta = np.empty((n_item, n_free)), np.empty((n_item, len(t.fixed)))
    _coefficients(x, t, rise, beta)
    sigma = t.noise_centre * np.exp(t.noise_sd * x[at_noise : at_noise + len(t.noise_centre)])
    effects = x[at_effect:]
    speed = np.zeros(n_item)
    for i in range(n_item):
        for s in range(t.item_effect.shape[1]):
            if t.item_effect[i, s] >= 0:
                speed[i] += effects[t.item_effect[i, s]]
    n_run, n_effective, n_all = t.matrix.shape
    log, z, phi = np.empty(n_effective), np.empty(n_effective), np.empty(t.weights.shape[1])
    o = 0
    for r in range(n_run):
        for m in range(n_effective):
            value = t.pad[r, m]
            for c in range(n_all):
                value += t.matrix[r, m, c] * beta[r, c]
            log[m] = math.log(value) + t.in_clock[r, m] * speed[r]
            if t.latent_effect[r] >= 0:
                log[m] += t.latent[r, m] * effects[t.latent_effect[r]]
        _features(r, t, log, z, phi)
        while o < len(t.run) and t.run[o] == r:
            inner = math.exp(np.sum(t.weights[o] * phi))
            output[o, 0] = math.log(inner + np.sum(t.overhead[o] * beta[r]))
            for s in range(t.output_effect.shape[1]):
                if t.output_effect[o, s] >= 0:
                    output[o, 0] += effects[t.output_effect[o, s]]
            output[o, 1] = math.hypot(sigma[t.output_noise[o]], t.residual[o])
            o += 1
    for j in range(len(t.row_log)):
        own = beta[t.row_item[j]]
        seconds = math.exp(speed[t.row_item[j]]) * np.sum(t.clock[j] * own)
        row[j, 0] = math.log(seconds + np.sum(t.row_overhead[j] * own))
        row[j, 1] = sigma[t.row_noise[j]]


@_jit
def run_numbers(x: Array, t: Any, log_effective: Array, extra: Array, added: Array) -> None:
    """Log effective numbers of every run, and what is added to its summaries after the engine.

    Parameters
    ----------
    x : ndarray, shape (n_parameter,)
        Unconstrained point.
    t : Tables
        Model and evidence.
    log_effective : ndarray, shape (n_run, n_effective)
        Overwritten.
    extra : ndarray, shape (n_output,)
        Overwritten with seconds of request overheads.
    added : ndarray, shape (n_output,)
        Overwritten with log discrepancies.
    """
    n_item, n_free, _ = t.offset.shape
    at_effect = n_free + t.n_offset + len(t.noise_centre) + len(t.scale_centre)
    rise, beta = np.empty((n_item, n_free)), np.empty((n_item, len(t.fixed)))
    _coefficients(x, t, rise, beta)
    effects = x[at_effect:]
    for r in range(t.matrix.shape[0]):
        speed = 0.0
        for s in range(t.item_effect.shape[1]):
            if t.item_effect[r, s] >= 0:
                speed += effects[t.item_effect[r, s]]
        for m in range(t.matrix.shape[1]):
            value = t.pad[r, m] + np.sum(t.matrix[r, m] * beta[r])
            log_effective[r, m] = math.log(value) + t.in_clock[r, m] * speed
            if t.latent_effect[r] >= 0:
                log_effective[r, m] += t.latent[r, m] * effects[t.latent_effect[r]]
    for o in range(len(t.run)):
        extra[o] = np.sum(t.overhead[o] * beta[t.run[o]])
        added[o] = 0.0
        for s in range(t.output_effect.shape[1]):
            if t.output_effect[o, s] >= 0:
                added[o] += effects[t.output_effect[o, s]]
