"""Splitwise's hardware profile: prompt and token times of lone static batches."""

from pathlib import Path

import numpy as np

from tailcast.deployment import Deployment
from tailcast.traces.public_set import PublicSet, Refusals, StepTable, features, public_deployment
from tailcast.workload.csv_file import CsvFile

FILE = "perf_model.csv.gz"

_ENGINE = {"name": "vllm", "version": "0.2", "prefix_caching": False, "chunked_prefill": False}
_GPUS = {"a100-80gb": "a100-sxm-80gb", "h100-80gb": "h100-sxm-80gb"}
_BUDGET = 2560
"""Prompt tokens that vLLM of that time put into one step; a single longer prompt went alone."""

_PARTLY_RECORDED = 64
"""Batch size from which the prompt phase was split and only part of it recorded."""


def load_splitwise(folder: Path) -> PublicSet:
    """Prompt phases and decode iterations of Llama-2-70B.

    `prompt_time` is one prefill step where all prompts fit one step; `token_time` is the mean
    decode iteration, taken at the mean context (prompt and half the output). Repeats are averaged
    geometrically.

    Parameters
    ----------
    folder : pathlib.Path
        With ``perf_model.csv.gz``.

    Returns
    -------
    PublicSet
        One step table a deployment.

    Raises
    ------
    InputError
        If a column is missing or a cell is no number.
    """
    path = folder / FILE
    file = CsvFile(path)
    refused = Refusals()
    cells: dict[tuple[str, str, int], dict[tuple[int, int, int], list[tuple[float, float]]]] = {}
    columns = [file.whole(c).tolist() for c in ("tensor_parallel", "prompt_size", "batch_size")]
    tokens, times = (
        file.whole("token_size").tolist(),
        zip(file.numbers("prompt_time").tolist(), file.numbers("token_time").tolist(), strict=True),
    )
    rows = zip(file.text("model"), file.text("hardware"), *columns, tokens, times, strict=True)
    for model, hardware, tp, prompt, batch, output, pair in rows:
        cells.setdefault((model, hardware, tp), {}).setdefault((prompt, batch, output), []).append(
            pair
        )
    steps = []
    for (model, hardware, tp), own in cells.items():
        n = sum(len(pairs) for pairs in own.values())
        if hardware not in _GPUS:
            refused.count(f"{hardware}: a power cap is another accelerator", n)
            continue
        found = public_deployment(model, _GPUS[hardware], tp, _ENGINE)
        if isinstance(found, str):
            refused.count(found, n)
            continue
        steps.append(_table(found, own, refused))
    return PublicSet(
        name="splitwise-perf",
        files=(path,),
        steps=tuple(steps),
        refused=refused.by_reason,
        notes=(
            "prompt_time: one prefill step where batch x prompt fits "
            f"{_BUDGET} tokens or the prompt is alone; token_time: a decode step at its mean "
            "context; vLLM of late 2023, taken for 0.2",
        ),
    )


def _table(
    deployment: Deployment,
    cells: dict[tuple[int, int, int], list[tuple[float, float]]],
    refused: Refusals,
) -> StepTable:
    rows, seconds, noise = [], [], []
    prefills: dict[tuple[int, int], list[float]] = {}
    for (prompt, batch, output), pairs in cells.items():
        if batch >= _PARTLY_RECORDED:
            refused.count("prompt_time at batch 64 holds part of the prompt phase", len(pairs))
        elif batch > 1 and batch * prompt > _BUDGET:
            refused.count("prompt_time over several steps: how many is not recorded", len(pairs))
        else:
            prefills.setdefault((prompt, batch), []).extend(p for p, _ in pairs)
        rows.append(features(step=1, decode=batch, context_token=batch * (prompt + output / 2)))
        seconds.append(1e-3 * float(np.exp(np.mean(np.log([t for _, t in pairs])))))
        noise.append("step.decode")
    for (prompt, batch), times in prefills.items():
        rows.append(
            features(
                step=1,
                prefill_token=batch * prompt,
                prefill_pair=batch * prompt**2 / 2,
                prefill_request=batch,
            )
        )
        seconds.append(1e-3 * float(np.exp(np.mean(np.log(times)))))
        noise.append("step.prefill")
    return StepTable(
        name=f"splitwise {deployment.llm.name}-tp{deployment.tensor_parallel}-"
        f"{deployment.accelerator.name}",
        deployment=deployment,
        features=np.array(rows),
        seconds=np.array(seconds),
        noise=tuple(noise),
    )
