"""LLM-Inference-Bench: latency of whole static batches, prompt and output equally long."""

from pathlib import Path

import numpy as np

from tailcast.deployment import Deployment
from tailcast.traces.public_set import PublicSet, Refusals, StepTable, features, public_deployment
from tailcast.workload.csv_file import CsvFile

FILE = "static_batch.csv.gz"

_ENGINE = {
    "name": "vllm",
    "version": "0.5",
    "prefix_caching": False,
    "chunked_prefill": False,
    "max_num_batched_tokens": 8192,
}
_LEAST = 4
"""Settings below which a deployment says too little to be told from its own speed."""

_FULL = 0.9
"""Share of the computed KV cache from which a batch may not have fitted: the cache is what weights
and activations leave, and they are not recorded."""

_GPUS = {"Nvidia H100 GPU": "h100-sxm-80gb", "Nvidia A100 GPU": "a100-sxm-40gb"}
"""The A100 of the bench has 40 GB (arXiv:2411.00136, table of hardware)."""


def load_argonne(folder: Path) -> PublicSet:
    """Batches of vLLM as sums of steps: the prefills, then one decode step a further token.

    Parameters
    ----------
    folder : pathlib.Path
        With ``static_batch.csv.gz``.

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
    cells: dict[tuple[str, str, int], dict[tuple[int, int], list[float]]] = {}
    rows = zip(
        file.text("framework"),
        file.text("model"),
        file.text("hardware"),
        file.whole("n_devices").tolist(),
        file.whole("io_len").tolist(),
        file.whole("batch").tolist(),
        file.numbers("latency_s").tolist(),
        strict=True,
    )
    for framework, model, hardware, tp, length, batch, latency in rows:
        if framework != "vLLM":
            refused.count(f"engine {framework}")
        elif hardware not in _GPUS:
            refused.count(f"accelerator {hardware}")
        else:
            own = cells.setdefault((model, _GPUS[hardware], tp), {})
            own.setdefault((length, batch), []).append(latency)
    steps = []
    for (model, gpu, tp), own in cells.items():
        n = sum(len(times) for times in own.values())
        found = public_deployment(model, gpu, tp, _ENGINE)
        if isinstance(found, str):
            refused.count(found, n)
        elif found.llm.is_moe:
            refused.count("MoE: experts read by prefill and decode cannot be told apart", n)
        else:
            table = _table(found, own, refused)
            if len(table.seconds) >= _LEAST:
                steps.append(table)
            else:
                refused.count(f"deployment with fewer than {_LEAST} settings", len(table.seconds))
    return PublicSet(
        name="argonne-llm-inference-bench",
        files=(path,),
        steps=tuple(steps),
        refused=refused.by_reason,
        notes=(
            "latency of a batch = its prefill steps and one decode step a further token; repeats "
            "averaged; engine versions are not in the rows: vLLM of 2024, taken for 0.5",
        ),
    )


def _table(
    deployment: Deployment, cells: dict[tuple[int, int], list[float]], refused: Refusals
) -> StepTable:
    capacity = deployment.kv_block_count * deployment.engine.block_size
    rows, seconds = [], []
    for (length, batch), times in cells.items():
        if 2 * length * batch > _FULL * capacity:
            refused.count("batch does not fit the KV cache: latency holds queueing", len(times))
            continue
        rows.append(static_batch_features(length, length, batch, deployment))
        seconds.append(float(np.exp(np.mean(np.log(times)))))
    return StepTable(
        name=f"static batches {deployment.llm.name}-tp{deployment.tensor_parallel}-"
        f"{deployment.accelerator.name}",
        deployment=deployment,
        features=np.array(rows).reshape(len(rows), -1),
        seconds=np.array(seconds),
        noise=("step.mixed",) * len(rows),
    )


def static_batch_features(
    prompt: int, output: int, batch: int, deployment: Deployment
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Features of a static batch, summed over its steps.

    Parameters
    ----------
    prompt, output : int
        Tokens of each request; the prefill yields the first output token.
    batch : int
        Requests.
    deployment : Deployment
        For the token budget of a prefill step; whole prompts only.

    Returns
    -------
    ndarray, shape (n_feature,)
        In the order of `tailcast.basis.FEATURES`.
    """
    a_step = max(1, deployment.engine.max_num_batched_tokens // prompt)
    decodes = output - 1
    return features(
        step=-(-batch // a_step) + decodes,
        prefill_token=batch * prompt,
        prefill_pair=batch * prompt**2 / 2,
        prefill_request=batch,
        decode=batch * decodes,
        context_token=batch * (decodes * prompt + decodes * (decodes + 1) / 2),
    )
