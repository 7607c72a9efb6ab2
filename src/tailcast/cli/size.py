"""`tailcast size`: fewest replicas for a rate or a forecast, for a risk."""

from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import Format, FormatOption, OutputOption, PosteriorOption, SeedOption
from tailcast.cli.queue import (
    GpuOption,
    InputOption,
    ModelOption,
    OutputTokensOption,
    SeqsOption,
    SloOption,
    TokensOption,
    TpOption,
)

CI_PROB = 0.89

NumbersOption = Annotated[
    str | None,
    typer.Option(
        "--numbers",
        help="alpha,beta,gamma as 6.7ms,20us,55ns (each with +-10% if unsure), a tuner's state, "
        "or a fit's .nc file.",
    ),
]
RateOption = Annotated[
    str, typer.Option("--rate", help="8rps, 480rpm, 480rpm+-20% (log-normal), or a file of rates.")
]
RiskOption = Annotated[
    float, typer.Option("--risk", min=1e-6, max=0.999, help="Accepted P(a mean target is missed).")
]


def size(
    input_tokens: InputOption,
    output_tokens: OutputTokensOption,
    rate: RateOption,
    slo: SloOption,
    risk: RiskOption = 0.05,
    numbers: NumbersOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = 1,
    posterior: PosteriorOption = None,
    max_num_seqs: SeqsOption = 256,
    max_num_batched_tokens: TokensOption = 8192,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Fewest replicas with P(all targets on means are met) >= 1 - risk; exit 1 where none helps.

    The three numbers come from --numbers, else from --model and --gpu: the engine posterior of
    --posterior mapped to them, or the datasheet.
    """
    from dataclasses import asdict

    from tailcast.autoscale.replica import Source, known_replica
    from tailcast.autoscale.size import size_replicas
    from tailcast.queueing.field_units import parse_targets
    from tailcast.queueing.rate_forecast import parse_forecast
    from tailcast.queueing.server import RequestShape, ServerLimits
    from tailcast.report.size import infeasible_note, size_json, size_table
    from tailcast.report.tables import render_rows

    shape = RequestShape(tokens_in=input_tokens, tokens_out=output_tokens)
    shape.check_served()
    limits = ServerLimits(max_batch=max_num_seqs, max_batched_tokens=max_num_batched_tokens)
    targets, forecast = parse_targets(slo), parse_forecast(rate)
    source = Source(
        numbers=numbers,
        llm_name=model,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        posterior=posterior,
    )
    replica = known_replica(source, shape, limits, targets, seed=seed)
    answer = size_replicas(replica, shape, forecast, targets, risk, seed=seed)
    notes = [f"Three numbers from {replica.known.source}; risk {risk:g}."]
    notes += [note[:1].upper() + note[1:] + "." for note in replica.notes]
    none = answer.replicas.n_replica is None
    if none:
        notes.append(infeasible_note(answer, targets))
    if style is Format.json:
        inputs = {
            "source": replica.known.source,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "rate": forecast.text,
            "targets": asdict(targets),
            "risk": risk,
            "limits": asdict(replica.limits),
            "seed": seed,
            "notes": notes,
        }
        emit_json(size_json(answer, inputs, CI_PROB), output)
    else:
        header, rows = size_table(answer, targets, CI_PROB)
        table = render_rows(header, rows, style.value)
        if style is Format.csv:
            emit(table, output)
            for note in notes:
                say(note)
        else:
            emit("\n".join([table, "", *notes]), output)
    if none:
        raise typer.Exit(1)
