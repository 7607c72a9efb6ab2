"""`tailcast catalog`: accelerators and LLMs that are known by name."""

import re
from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json
from tailcast.cli.options import Format, FormatOption, OutputOption

app = typer.Typer(
    help="Facts about accelerators and LLMs.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("gpus")
def gpus(style: FormatOption = Format.table, output: OutputOption = None) -> None:
    """Accelerators with their datasheet peaks."""
    from tailcast.catalog.accelerators import accelerator, names
    from tailcast.report.tables import render_rows

    found = [accelerator(name) for name in names()]
    if style is Format.json:
        emit_json([gpu_json(a.name) for a in found], output)
        return
    rows = [
        [
            a.name,
            *(
                f"{a.peak_flops_by_dtype[d] / 1e12:.0f}" if d in a.peak_flops_by_dtype else ""
                for d in ("bf16", "fp8")
            ),
            f"{a.memory_bandwidth / 1e12:.2f}",
            f"{a.memory / 1e9:.0f}",
            f"{a.interconnect} {a.interconnect_bandwidth / 1e9:.0f}",
        ]
        for a in found
    ]
    header = ["accelerator", "bf16 TFLOP/s", "fp8 TFLOP/s", "TB/s", "GB", "interconnect GB/s"]
    emit(render_rows(header, rows, style.value), output)


def gpu_json(name: str) -> dict[str, object]:
    """All facts of one accelerator, with their sources.

    Parameters
    ----------
    name : str
        Catalogue name.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    from tailcast.catalog.accelerators import accelerator

    a = accelerator(name)
    return {
        "name": a.name,
        "peak_flops_by_dtype": dict(a.peak_flops_by_dtype),
        "memory_bandwidth": a.memory_bandwidth,
        "memory": a.memory,
        "interconnect": a.interconnect,
        "interconnect_bandwidth": a.interconnect_bandwidth,
        "sources": dict(a.sources),
    }


@app.command("models")
def models(style: FormatOption = Format.table, output: OutputOption = None) -> None:
    """LLMs with parameters, KV bytes and layers."""
    from tailcast.catalog.llms import llm, names
    from tailcast.report.tables import render_rows

    found = [llm(name) for name in names()]
    if style is Format.json:
        emit_json([llm_json(m.name) for m in found], output)
        return
    rows = [
        [
            m.name,
            m.family,
            f"{m.total_parameters / 1e9:.2f}",
            f"{m.active_parameters / 1e9:.2f}",
            str(m.n_layers),
            f"{(m.kv_bytes_per_token + m.window_kv_bytes_per_token) / 1024:.0f}",
            m.quantisation.scheme,
        ]
        for m in found
    ]
    header = ["LLM", "family", "B params", "B active", "layers", "KV KiB/token", "weights"]
    emit(render_rows(header, rows, style.value), output)


def llm_json(name: str) -> dict[str, object]:
    """All facts of one LLM.

    Parameters
    ----------
    name : str
        Catalogue name, or the path of a config.json.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    from dataclasses import asdict

    from tailcast.catalog.llms import llm

    m = llm(name)
    return {
        **asdict(m),
        "total_parameters": m.total_parameters,
        "active_parameters": m.active_parameters,
        "kv_bytes_per_token": m.kv_bytes_per_token,
        "total_weight_bytes": m.total_weight_bytes,
    }


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Accelerator, LLM or path of a config.json.")],
    output: OutputOption = None,
) -> None:
    """Everything known about one accelerator or LLM, as JSON."""
    from tailcast.errors import CatalogError, near_name

    try:
        content = gpu_json(name)
    except CatalogError as unknown_gpu:
        if "ambiguous" in str(unknown_gpu):
            raise
        try:
            content = llm_json(name)
        except CatalogError as unknown:
            if "ambiguous" in str(unknown):
                raise
            texts = (str(unknown_gpu), str(unknown))
            near = [name for text in texts for name in re.findall("did you mean '(.+?)'", text)]
            hint = near_name(name.lower(), near) if near else "tailcast catalog gpus lists names"
            raise CatalogError(f"no accelerator or LLM {name!r:.80}; {hint}") from unknown
    emit_json(content, output)
