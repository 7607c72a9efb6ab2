"""`tailcast queue compare`: the chain beside the engine on the same server."""

from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import Format, FormatOption, OutputOption, SeedOption

RunsOption = Annotated[int, typer.Option("--runs", min=4, help="Engine runs of each place.")]
NumbersOption = Annotated[
    str | None,
    typer.Option("--numbers", help="alpha,beta,gamma, with +-10% each to vary them, or a state."),
]
LagOption = Annotated[
    float, typer.Option("--schedule-lag", min=0.0, max=2.0, help="Steps the engine plans ahead.")
]


def compare(
    numbers: NumbersOption = None,
    model: Annotated[str | None, typer.Option("--model", help="LLM, for its datasheet.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="Accelerator.")] = None,
    input_tokens: Annotated[
        float | None, typer.Option("--input-tokens", help="Mean prompt tokens; a grid if absent.")
    ] = None,
    output_tokens: Annotated[
        float | None, typer.Option("--output-tokens", help="Mean output tokens.")
    ] = None,
    max_num_seqs: Annotated[
        int, typer.Option("--max-num-seqs", help="Batch cap, with --input-tokens.")
    ] = 256,
    max_num_batched_tokens: Annotated[
        int, typer.Option("--max-num-batched-tokens", help="Tokens computed in a step.")
    ] = 8192,
    schedule_lag: LagOption = 0.0,
    runs: RunsOption = 24,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Where the chain is off the engine, and what it is worth as a control variate."""
    from tailcast.autoscale.replica import Source, known_replica
    from tailcast.crosscheck.compare import GRID, LOADS, CompareCase, compare_grid
    from tailcast.errors import UsageError
    from tailcast.queueing.server import RequestShape, ServerLimits
    from tailcast.queueing.sizing import Targets
    from tailcast.report.compare import compare_json, compare_notes, compare_rows
    from tailcast.report.tables import render_rows

    if (input_tokens is None) != (output_tokens is None):
        raise UsageError("give both --input-tokens and --output-tokens, or neither")
    grid = GRID
    if input_tokens is not None and output_tokens is not None:
        grid = ((input_tokens, output_tokens, max_num_seqs),)
    limits = ServerLimits(max_batched_tokens=max_num_batched_tokens)
    any_shape = RequestShape(tokens_in=1, tokens_out=1)
    source = Source(numbers=numbers, llm_name=model, gpu=gpu)
    known = known_replica(source, any_shape, limits, Targets(), seed=seed).known
    cases = [
        CompareCase(tokens_in=i, tokens_out=o, max_batch=cap, load=load)
        for i, o, cap in grid
        for load in LOADS
    ]
    found = compare_grid(
        known.log_draws,
        limits,
        cases=cases,
        n_run=runs,
        schedule_lag=schedule_lag,
        seed=seed,
        progress=say,
    )
    notes = [f"Three numbers from {known.source}; {runs} engine runs a place.", ""]
    notes[1:] = compare_notes(found)
    if style is Format.json:
        inputs = {"source": known.source, "runs": runs, "schedule_lag": schedule_lag, "seed": seed}
        emit_json(compare_json(found, inputs), output)
        return
    table = render_rows(*compare_rows(found), style.value)
    if style is Format.csv:
        emit(table, output)
        for note in notes:
            say(note)
    else:
        emit("\n".join([table, "", *notes]), output)
