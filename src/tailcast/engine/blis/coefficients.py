"""BLIS's coefficients by name; its own positional lists are accepted where people have them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from tailcast.errors import InputError, near_name
from tailcast.latency_model import LatencyModel, load_latency_model

BLIS_LATENCY_MODEL = "blis-trained-physics"
"""Shipped folder with BLIS's default trained-physics coefficients."""

_ALPHA_ORDER = ("ingest", "finish", "stream")
_BETA_ORDER = (
    "prefill_compute",
    "decode_compute",
    "weight_read",
    "tp_allreduce",
    "per_layer",
    "per_request",
    "per_step",
    "per_moe_layer",
    "prefill_kv_write",
    "decode_kv_read",
    "expert_dispatch",
)
_FEWEST_BETAS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisCoefficients:
    """Coefficients of both BLIS backends; roofline uses the overheads only.

    Parameters
    ----------
    ingest, finish, stream : float
        Overheads in microseconds: arrival to queue, once per finished request, per output token.
    ingest_per_token : float
        Microseconds per prompt token between arrival and queue; roofline only.
    prefill_compute, decode_compute, weight_read, tp_allreduce : float
        Dimensionless factors of times at the datasheet's peak. Not bounded below by 1 in BLIS.
    per_layer, per_request, per_step, per_moe_layer : float
        Microseconds per count.
    prefill_kv_write, decode_kv_read : float or None
        Factors of KV traffic. None: the compute factor multiplies the larger of both times.
    expert_dispatch : float or None
        Factor of expert all-to-all traffic. None: the same as `tp_allreduce`.
    """

    ingest: float = 0.0
    finish: float = 0.0
    stream: float = 0.0
    ingest_per_token: float = 0.0
    prefill_compute: float = 0.0
    decode_compute: float = 0.0
    weight_read: float = 0.0
    tp_allreduce: float = 0.0
    per_layer: float = 0.0
    per_request: float = 0.0
    per_step: float = 0.0
    per_moe_layer: float = 0.0
    prefill_kv_write: float | None = None
    decode_kv_read: float | None = None
    expert_dispatch: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InputError(
                    f"BLIS coefficient {field.name} must be finite and not negative, got {value!r}"
                )


def coefficients_from_lists(alpha: Sequence[float], beta: Sequence[float]) -> BlisCoefficients:
    """Name the entries of BLIS's ``--alpha-coeffs`` and ``--beta-coeffs``.

    Parameters
    ----------
    alpha : sequence of float
        At least three overheads in microseconds: ingest, finish, stream.
    beta : sequence of float
        At least seven factors in BLIS's order; from 9 on prefill, from 10 on decode is split into
        compute and KV traffic, the 11th is expert dispatch; more are ignored.

    Returns
    -------
    BlisCoefficients
        The same numbers by name.

    Raises
    ------
    InputError
        If a list is too short or a number is negative or not finite.

    Examples
    --------
    >>> coefficients_from_lists([1, 2, 3], [1] * 7).decode_kv_read is None
    True
    """
    if len(alpha) < len(_ALPHA_ORDER):
        raise InputError(f"BLIS needs at least 3 alpha coefficients, got {len(alpha)}")
    if len(beta) < _FEWEST_BETAS:
        raise InputError(f"BLIS needs at least {_FEWEST_BETAS} beta coefficients, got {len(beta)}")
    named = dict(zip(_ALPHA_ORDER, map(float, alpha), strict=False))
    named.update(zip(_BETA_ORDER, map(float, beta), strict=False))
    return BlisCoefficients(**named)


def load_blis_coefficients(name: str = BLIS_LATENCY_MODEL) -> BlisCoefficients:
    """Read coefficients from a ``model.toml`` whose mode is ``blis``.

    Parameters
    ----------
    name : str
        Shipped latency model, or the path of a folder with a ``model.toml``.

    Returns
    -------
    BlisCoefficients
        Values in microseconds or without dimension.

    Raises
    ------
    UsageError
        If there is no such model.
    InputError
        If the file is not a BLIS model or a coefficient is unknown, missing or impossible.
    """
    return blis_coefficients(load_latency_model(name))


def blis_coefficients(model: LatencyModel) -> BlisCoefficients:
    """Coefficients of a latency model whose mode is ``blis``.

    Parameters
    ----------
    model : LatencyModel
        With fixed values in microseconds or without dimension.

    Returns
    -------
    BlisCoefficients
        The same numbers.

    Raises
    ------
    InputError
        If the model is not BLIS's, or a coefficient is unknown, missing or not fixed.
    """
    where = f"latency model {model.name!r}"
    if model.mode != "blis":
        raise InputError(f"{where} is not BLIS's (mode is {model.mode!r}, expected 'blis')")
    known = {field.name for field in fields(BlisCoefficients)}
    for coefficient in model.coefficients:
        if coefficient.name not in known:
            hint = near_name(coefficient.name, known)
            raise InputError(f"{where}: unknown coefficient {coefficient.name!r}; {hint}")
        if not coefficient.fixed:
            raise InputError(f"{where}: {coefficient.name} needs a value, BLIS has no priors")
    for name in (*_ALPHA_ORDER, *_BETA_ORDER[:_FEWEST_BETAS]):
        if name not in model.names:
            raise InputError(f"{where}: coefficient {name!r} is missing")
    return BlisCoefficients(**{c.name: c.centre for c in model.coefficients})
