"""`tailcast queue`: the three-number queueing model of one replica."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import CiProbOption, Format, FormatOption, OutputOption, SeedOption
from tailcast.cli.queue_compare import compare
from tailcast.cli.queue_fit import fit

if TYPE_CHECKING:
    from tailcast.queueing.known_numbers import KnownNumbers
    from tailcast.queueing.server import RequestShape, ServerLimits
    from tailcast.queueing.vectors import VectorReport

app = typer.Typer(
    help="Three numbers: mean TTFT and ITL of a replica, its capacity, and replicas for a risk.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("fit")(fit)
app.command("compare")(compare)


class WorkModelName(StrEnum):
    """Published versions of the work model."""

    V0 = "V0"
    V1 = "V1"
    V2 = "V2"


NumbersOption = Annotated[
    str | None,
    typer.Option(
        "--numbers", help="alpha,beta,gamma as 6.7ms,20us,55ns, a fit, or a tuner's state."
    ),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="LLM: without --numbers, a prior from the datasheet.")
]
GpuOption = Annotated[str | None, typer.Option("--gpu", help="Accelerator, e.g. h100-sxm.")]
TpOption = Annotated[
    int, typer.Option("-tp", "--tensor-parallel-size", min=1, help="Accelerators per replica.")
]
InputOption = Annotated[float, typer.Option("--input-tokens", help="Mean prompt tokens.")]
OutputTokensOption = Annotated[float, typer.Option("--output-tokens", help="Mean output tokens.")]
RateOption = Annotated[str, typer.Option("--rate", help="Arrivals, e.g. 8rps or 480rpm.")]
SeqsOption = Annotated[int, typer.Option("--max-num-seqs", help="Requests served at once.")]
QueueOption = Annotated[int, typer.Option("--max-queue", help="Places to wait in.")]
TokensOption = Annotated[
    int, typer.Option("--max-num-batched-tokens", help="Tokens computed in a step.")
]
SloOption = Annotated[
    list[str],
    typer.Option("--slo", help="Target on a mean: ttft=60ms, itl=20ms, tps=500; repeatable."),
]


@app.command("solve")
def solve(
    input_tokens: InputOption,
    output_tokens: OutputTokensOption,
    rate: RateOption,
    numbers: NumbersOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = 1,
    max_num_seqs: SeqsOption = 256,
    max_queue: QueueOption = 256,
    max_num_batched_tokens: TokensOption = 8192,
    version: Annotated[
        WorkModelName, typer.Option("--work-model", help="Version of the work model.")
    ] = WorkModelName.V2,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Mean TTFT, ITL, throughput, occupancy and waiting of one replica at a rate."""
    from tailcast.queueing.field_units import parse_rate, parse_two_lines
    from tailcast.queueing.sensitivity import numbers_of_log
    from tailcast.queueing.steady_state import Replica
    from tailcast.queueing.work_model import work_model
    from tailcast.report.queue import state_quantiles, state_rows

    shape, limits = _server(
        input_tokens, output_tokens, max_num_seqs, max_queue, max_num_batched_tokens
    )
    arrivals = parse_rate(rate)
    if version is WorkModelName.V0:
        work = work_model(parse_two_lines(numbers or ""), shape, limits, version.value)
        state = Replica(work=work, limits=limits).steady_state(arrivals)
        source, exact = f"two lines {numbers}", True
    else:
        known = _known(numbers, model, gpu, tensor_parallel, shape, seed)
        work = work_model(numbers_of_log(known.log_draws), shape, limits, version.value)
        state = Replica(work=work, limits=limits).steady_state(arrivals)
        state = known.discrepancy.measured(state)
        source, exact = f"three numbers from {known.source}", known.exact
    found = state_quantiles(state, ci_prob)
    notes = [f"{version.value}, {source}."]
    if bool(state.overloaded.mean() > 0.5):
        notes.append("Overloaded: what finds the waiting room full is lost; TTFT of the rest.")
    header, rows = state_rows(found, exact)
    content: dict[str, object] = {
        "schema": "tailcast/queue-solve/1",
        "work_model": version.value,
        "source": source,
        "rate": arrivals,
        "ci_prob": ci_prob,
        "means": found,
    }
    _render(content, header, rows, notes if exact else [*notes, _interval(ci_prob)], style, output)


@app.command("size")
def size(
    input_tokens: InputOption,
    output_tokens: OutputTokensOption,
    rate: RateOption,
    slo: SloOption,
    risk: Annotated[
        float, typer.Option("--risk", min=1e-6, max=0.999, help="Accepted P(a mean is missed).")
    ] = 0.05,
    numbers: NumbersOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = 1,
    max_num_seqs: SeqsOption = 256,
    max_queue: QueueOption = 256,
    max_num_batched_tokens: TokensOption = 8192,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Fewest replicas that meet targets on means at a rate, for a risk."""
    from tailcast.queueing.capacity import capacity_draws, replicas_for_risk
    from tailcast.queueing.field_units import parse_rate, parse_targets
    from tailcast.report.queue import size_rows

    shape, limits = _server(
        input_tokens, output_tokens, max_num_seqs, max_queue, max_num_batched_tokens
    )
    known = _known(numbers, model, gpu, tensor_parallel, shape, seed)
    arrivals, targets, ci_prob = parse_rate(rate), parse_targets(slo), 0.89
    capacity = capacity_draws(known.log_draws, shape, limits, targets, known.discrepancy)
    answer = replicas_for_risk(capacity, arrivals, risk)
    header, rows = size_rows(answer, capacity, ci_prob)
    notes = [f"V2, three numbers from {known.source}; risk {risk:g}."]
    if answer.n_replica is None:
        notes.append(
            f"No number of replicas can help: with probability {answer.p_infeasible:.3g} a lone "
            f"request already misses its {answer.binding} target."
        )
    content = {
        "schema": "tailcast/queue-size/1",
        "source": known.source,
        "rate": arrivals,
        "risk": risk,
        "targets": {"ttft": targets.ttft, "itl": targets.itl, "tps": targets.tps},
        "n_replica": answer.n_replica,
        "p_miss": answer.p_miss,
        "p_infeasible": answer.p_infeasible,
        "binding": answer.binding,
        "capacity": _capacity_json(capacity.rate, ci_prob),
    }
    _render(
        content, header, rows, notes if known.exact else [*notes, _interval(ci_prob)], style, output
    )
    if answer.n_replica is None:
        raise typer.Exit(1)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="Vectors, as in three_numbers_vectors.yaml.")],
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Run every case of a vector file; print what differs, and the counts last."""
    from tailcast.queueing.vectors import check_vectors
    from tailcast.report.tables import render_rows

    report = check_vectors(file)
    if style is Format.json:
        emit_json(_report_json(report), output)
    else:
        odd = [*report.with_status("failed"), *report.with_status("skipped")]
        header = ["case", "kind", "status", "what"]
        rows = [[o.name, o.kind, o.status, o.detail] for o in odd]
        lines = [render_rows(header, rows, style.value)] if rows else []
        if style is Format.csv:
            lines = [render_rows(header, rows, style.value)]
            say(report.summary)
        elif style is Format.markdown and lines:
            lines += ["", report.summary]
        else:
            lines.append(report.summary)
        emit("\n".join(lines), output)
    if report.n_failed:
        raise typer.Exit(1)


def _server(
    input_tokens: float, output_tokens: float, seqs: int, queue: int, batched: int
) -> "tuple[RequestShape, ServerLimits]":
    from tailcast.queueing.server import RequestShape, ServerLimits

    shape = RequestShape(tokens_in=input_tokens, tokens_out=output_tokens)
    shape.check_served()
    return shape, ServerLimits(max_batch=seqs, max_queue=queue, max_batched_tokens=batched)


def _known(
    numbers: str | None,
    model: str | None,
    gpu: str | None,
    tensor_parallel: int,
    shape: "RequestShape",
    seed: int,
) -> "KnownNumbers":
    from tailcast.queueing.known_numbers import known_numbers

    path = Path(numbers or "")
    if numbers and "," not in numbers and (path.is_dir() or path.suffix == ".nc"):
        from tailcast.inference.queue_predict import known_from_fit
        from tailcast.inference.queue_store import read_queue_fit

        return known_from_fit(read_queue_fit(path), shape, seed=seed, source=f"fit {path}")
    return known_numbers(numbers, model, gpu, tensor_parallel, seed)


def _interval(ci_prob: float) -> str:
    return f"Intervals: {ci_prob:.0%} equal-tailed, over draws of the three numbers."


def _capacity_json(rate: Any, ci_prob: float) -> dict[str, object]:
    import numpy as np

    low, middle, high = np.quantile(rate, [(1 - ci_prob) / 2, 0.5, (1 + ci_prob) / 2])
    return {"median": middle, "low": low, "high": high, "ci_prob": ci_prob, "unit": "requests/s"}


def _report_json(report: "VectorReport") -> dict[str, object]:
    cases = [
        {"id": o.name, "kind": o.kind, "variant": o.variant, "status": o.status, "what": o.detail}
        for o in report.outcomes
    ]
    counts = {"passed": report.n_passed, "failed": report.n_failed, "skipped": report.n_skipped}
    return {"schema": "tailcast/queue-check/1", "file": str(report.path), **counts, "cases": cases}


def _render(
    content: dict[str, object],
    header: list[str],
    rows: list[list[str]],
    notes: list[str],
    style: Format,
    output: Path | None,
) -> None:
    from tailcast.report.tables import render_rows

    if style is Format.json:
        emit_json(content, output)
        return
    table = render_rows(header, rows, style.value)
    if style is Format.csv:
        emit(table, output)
        for note in notes:
            say(note)
    else:
        emit("\n".join([table, "", *notes]), output)
