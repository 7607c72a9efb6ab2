"""LLM-Pilot: engine steps of TGIS, rebuilt from token times of closed loops of users."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.errors import InputError, UsageError
from tailcast.traces.public_set import (
    PublicSet,
    Refusals,
    StepTable,
    features,
    public_deployment,
    trimmed_mean,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]

FILE = "steps.parquet"

_ENGINE = {"name": "tgis", "version": "2023", "prefix_caching": False, "chunked_prefill": False}
_GPUS = {
    "H100": "h100-sxm-80gb",
    "A100": "a100-pcie-40gb",
    "A10": "a10-24gb",
    "T4": "t4-16gb",
}
_NUMBERS = ("tp", "users", "dt_ms", "n_decode", "n_prefill", "prefill_tokens", "kv_tokens")
_DECODE_EDGES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 1 << 20])
_N_CONTEXT, _N_PROMPT = 3, 8
_LEAST = 20
"""Steps below which no cell is made."""


def load_llm_pilot(folder: Path) -> PublicSet:
    """Decode steps by batch and context, and lone prompts by length.

    A decode step counts where the step before it was a decode step too: the one after a prefill
    shows the prefill's time. Lone prompts are the steps of one user's runs that carry a prefill:
    they hold what a request costs outside its steps. Durations are whole milliseconds, so a cell is
    a trimmed mean over at least 20 steps.

    Parameters
    ----------
    folder : pathlib.Path
        With ``steps.parquet``.

    Returns
    -------
    PublicSet
        Two step tables a deployment at most: decode steps, and lone prompts.

    Raises
    ------
    UsageError
        If pyarrow, which reads the file, is not installed.
    InputError
        If the file is not what it should be.
    """
    path = folder / FILE
    table = _columns(path)
    refused = Refusals()
    steps: list[StepTable] = []
    names = [
        f"{m}|{g}|{tp}" for m, g, tp in zip(table["model"], table["gpu"], table["tp"], strict=True)
    ]
    label, group = np.unique(np.array(names), return_inverse=True)
    after = _follows_decode(table, group)
    for k, text in enumerate(label.tolist()):
        model, gpu, tp = text.split("|")
        own = group == k
        found = public_deployment(model, _GPUS.get(gpu, gpu), int(tp), _ENGINE)
        if isinstance(found, str):
            refused.count(found, int(own.sum()))
            continue
        steps += _tables(found, table, own, after, refused)
    return PublicSet(
        name="llm-pilot-tgis",
        files=(path,),
        steps=tuple(steps),
        refused=refused.by_reason,
        notes=(
            "TGIS of 2023 spends ten times as much time a sequence as vLLM: engine levels keep the "
            "two apart; A100 is the PCIe card with 40 GB",
        ),
    )


def _columns(path: Path) -> Columns:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{path}: Parquet files need pyarrow: pip install 'tailcast[parquet]'"
        ) from error
    try:
        table = parquet.read_table(path, columns=["model", "gpu", *_NUMBERS])
    except (OSError, ArrowException, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a table of LLM-Pilot steps ({reason})") from error
    columns: Columns = {name: np.array(table[name].to_pylist()) for name in ("model", "gpu")}
    for name in _NUMBERS:
        columns[name] = table[name].to_numpy().astype(np.int64)
    return columns


def _follows_decode(table: Columns, group: NDArray[np.int64]) -> Mask:
    """Steps whose predecessor in the same run was a decode step."""
    same = (np.diff(group) == 0) & (np.diff(table["users"]) == 0)
    before = (table["n_prefill"][:-1] == 0) & (table["n_decode"][:-1] > 0)
    return np.concatenate([[False], same & before])


def _tables(
    deployment: Deployment, table: Columns, own: Mask, after: Mask, refused: Refusals
) -> list[StepTable]:
    timed = own & (table["dt_ms"] > 0)
    decode = timed & (table["n_prefill"] == 0) & (table["n_decode"] > 0)
    lone = timed & (table["users"] == 1) & (table["n_prefill"] == 1) & (table["n_decode"] == 0)
    refused.count("first step of a run: no duration", int((own & ~timed).sum()))
    refused.count(
        "decode step after a prefill shows the prefill's time", int((decode & ~after).sum())
    )
    refused.count("prefill beside other users' requests", int((timed & ~decode & ~lone).sum()))
    name = f"{deployment.llm.name}-tp{deployment.tensor_parallel}-{deployment.accelerator.name}"
    made = (
        (
            _decode_cells(table, decode & after, refused),
            "step.decode",
            f"TGIS decode {name}",
            False,
        ),
        (_prompt_cells(table, lone, refused), "step.prefill", f"TGIS prompts {name}", True),
    )
    return [
        StepTable(
            name=title,
            deployment=deployment,
            features=np.array([row for row, _ in cells]),
            seconds=np.array([seconds for _, seconds in cells]),
            noise=(noise,) * len(cells),
            client_side=client_side,
        )
        for cells, noise, title, client_side in made
        if cells
    ]


def _decode_cells(table: Columns, rows: Mask, refused: Refusals) -> list[tuple[Array, float]]:
    cells = []
    band = np.searchsorted(_DECODE_EDGES, table["n_decode"], side="right")
    for b in np.unique(band[rows]).tolist():
        for part in _quantile_parts(table["kv_tokens"], rows & (band == b), _N_CONTEXT):
            if len(part) < _LEAST:
                refused.count(f"cell of fewer than {_LEAST} steps", len(part))
                continue
            row = features(
                step=1,
                decode=float(table["n_decode"][part].mean()),
                context_token=float(table["kv_tokens"][part].mean()),
            )
            cells.append((row, 1e-3 * trimmed_mean(table["dt_ms"][part].astype(np.float64))))
    return cells


def _prompt_cells(table: Columns, rows: Mask, refused: Refusals) -> list[tuple[Array, float]]:
    cells = []
    for part in _quantile_parts(table["prefill_tokens"], rows, _N_PROMPT):
        if len(part) < _LEAST:
            refused.count(f"cell of fewer than {_LEAST} steps", len(part))
            continue
        tokens = table["prefill_tokens"][part].astype(np.float64)
        row = features(
            step=1,
            prefill_token=float(tokens.mean()),
            prefill_pair=float((tokens**2).mean() / 2),
            prefill_request=1,
        )
        cells.append((row, 1e-3 * trimmed_mean(table["dt_ms"][part].astype(np.float64))))
    return cells


def _quantile_parts(values: NDArray[Any], rows: Mask, n: int) -> list[NDArray[np.int64]]:
    """Row numbers in `n` equally large parts by value."""
    place = np.flatnonzero(rows)
    ordered = place[np.argsort(values[place], kind="stable")]
    return [part for part in np.array_split(ordered, n) if len(part)]
