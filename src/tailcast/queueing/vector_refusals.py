"""Vector cases on bisection and on inputs that must be refused."""

import ast
import operator
import re
from collections.abc import Callable, Mapping

from tailcast.errors import TailcastError, UsageError
from tailcast.queueing.bisection import bisect
from tailcast.queueing.server import (
    MS,
    VERSIONS,
    RequestShape,
    ThreeNumbers,
    TwoLines,
    three_numbers_ms,
)
from tailcast.queueing.sizing import Targets, largest_rate
from tailcast.queueing.steady_state import Replica
from tailcast.queueing.vector_cases import Found, Results, SkipCaseError, VectorCase
from tailcast.queueing.vector_chain import limits_of, two_lines_ms
from tailcast.queueing.work_model import work_model

# a feasible server for the cases that spoil one input of it; times in ms, rates in requests/s
_VALID = {
    "alpha": 8.0,
    "beta": 0.033,
    "gamma": 0.000333,
    "delta": 0.0001,
    "tokens_in": 256,
    "tokens_out": 64,
    "max_batch": 64,
    "max_queue": 128,
    "max_batched_tokens": 8192,
    "rate_rps": "0.5*max_rate",
}
_TIMES_MAX_RATE = re.compile(r"\s*([0-9.eE+-]+)\s*\*\s*max_rate\s*")
_OPERATIONS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _expression(text: str) -> Callable[[float], float]:
    spelt = re.sub(r"(?<=[0-9)])\s*(?=x|\()", "*", text.replace("^", "**"))

    def value(node: ast.AST, x: float) -> float:
        if isinstance(node, ast.Expression):
            return value(node.body, x)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.Name) and node.id == "x":
            return x
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value(node.left, x), value(node.right, x))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value(node.operand, x))
        raise SkipCaseError(f"function {text!r} is not arithmetic in x")

    try:
        tree = ast.parse(spelt, mode="eval")
    except SyntaxError:
        raise SkipCaseError(f"function {text!r} is not arithmetic in x") from None
    value(tree, 1.5)
    return lambda x: value(tree, x)


def bisection(case: VectorCase) -> Results:
    """Bisection of a function of x.

    Parameters
    ----------
    case : VectorCase
        With function, lo, hi and target.

    Returns
    -------
    mapping
        indicator, error, and x and the value there.
    """
    function = _expression(case.text("function"))
    low, high, target = (case.number(field) for field in ("lo", "hi", "target"))
    try:
        x, side = bisect(function, low, high, target)
    except (UsageError, ZeroDivisionError, OverflowError):
        return {"indicator": 0, "error": True}
    place = {"x": x, "value": function(x)}
    return {"indicator": side, "error": False, **place}


def _run_with(inputs: Mapping[str, object], version: str) -> None:
    numbers = [inputs[f] for f in ("alpha", "beta", "gamma", "delta")]
    if version == "V0" and None not in numbers:
        parameters: ThreeNumbers | TwoLines = two_lines_ms(*numbers)  # type: ignore[arg-type]
    else:
        parameters = three_numbers_ms(*numbers[:3])  # type: ignore[arg-type]
    limits = limits_of(*(inputs[f] for f in ("max_batch", "max_queue", "max_batched_tokens")))
    tokens_in, tokens_out = inputs["tokens_in"], inputs["tokens_out"]
    shape = RequestShape(tokens_in=tokens_in, tokens_out=tokens_out)  # type: ignore[arg-type]
    work = work_model(parameters, shape, limits, version)
    replica = Replica(work=work, limits=limits)
    rate = inputs["rate_rps"]
    of_max = _TIMES_MAX_RATE.fullmatch(rate) if isinstance(rate, str) else None
    if of_max:
        rate = float(of_max[1]) * float(replica.max_rate)
    replica.steady_state(rate)  # type: ignore[arg-type]
    given = {
        f: inputs[f"target_{f}"] for f in ("ttft_ms", "itl_ms", "tps") if f"target_{f}" in inputs
    }
    if given:
        scaled = {f.removesuffix("_ms"): _scaled(v, f) for f, v in given.items()}
        largest_rate(replica, Targets(**scaled))  # type: ignore[arg-type]


def _scaled(value: object, field: str) -> object:
    in_ms = field.endswith("_ms") and isinstance(value, (int, float))
    return value * MS if in_ms else value  # type: ignore[operator]


def refusal(case: VectorCase) -> Results:
    """Whether a spoilt (or an extreme) input is refused by every version named.

    Parameters
    ----------
    case : VectorCase
        Its inputs replace those of a feasible server.

    Returns
    -------
    mapping
        error; a text naming the versions where they do not agree.
    """
    versions = [part.strip() for part in case.variant.split(",")]
    if case.variant == "any":
        versions = list(VERSIONS)
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown:
        raise SkipCaseError(f"no work model {unknown[0]!r} here; known: {', '.join(VERSIONS)}")
    strange = sorted(
        field
        for field in case.inputs
        if field not in _VALID and field not in ("target_ttft_ms", "target_itl_ms", "target_tps")
    )
    if strange:
        raise SkipCaseError(f"no input {strange[0]!r} here")
    refused = {}
    for version in versions:
        try:
            _run_with({**_VALID, **case.inputs}, version)
            refused[version] = False
        except TailcastError:
            refused[version] = True
    agreed = set(refused.values())
    if len(agreed) == 1:
        return {"error": agreed.pop()}
    listed = ", ".join(f"{v} {'refuses' if no else 'accepts'}" for v, no in refused.items())
    return {"error": Found(value=listed)}
