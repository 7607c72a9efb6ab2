"""From flags or a study file to the question that predict and slo answer."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailcast.errors import InputError, UsageError

if TYPE_CHECKING:
    from tailcast.study import Study

_TABLES = ("deployment", "workload")

DEFAULT_REQUESTS = 1000
"""Requests of one simulated run where nothing says how many."""


def question(
    study: Path | None,
    *,
    llm: str | None,
    gpu: str | None,
    tensor_parallel: int | None,
    rate: float | None,
    input_tokens: int | None,
    output_tokens: int | None,
    objectives: list[str],
    posterior: str | None,
    mode: str | None = None,
) -> "Study":
    """Question asked by a study file, by flags, or by a file with flags on top.

    Parameters
    ----------
    study : pathlib.Path, optional
        TOML file.
    llm, gpu : str, optional
        Names; needed without a study.
    tensor_parallel : int, optional
        Accelerators per replica.
    rate : float, optional
        Requests per second.
    input_tokens, output_tokens : int, optional
        Constant lengths.
    objectives : list of str
        ``metric.stat=duration``; replace the study's.
    posterior : str, optional
        Replaces the study's.
    mode : str, optional
        ``vllm`` or ``blis``; replaces the study's.

    Returns
    -------
    Study
        Complete.

    Raises
    ------
    UsageError
        If something needed is missing.
    """
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.slo import complete_objectives, parse_objective
    from tailcast.study import Study, deployment_from_mapping, read_study, replicas_of
    from tailcast.workload.mapping import workload_from_mapping

    wanted = complete_objectives([parse_objective(text) for text in objectives])
    tables: dict[str, Any] = read_study(study) if study else {}
    flags = {"model": llm, "gpu": gpu, "tensor_parallel": tensor_parallel}
    load = {"rate": rate, "input_tokens": input_tokens, "output_tokens": output_tokens}
    if study and not any(v is not None for v in (*flags.values(), *load.values())):
        from tailcast.study import load_study

        asked = load_study(study)
    else:
        deployment = {**tables.get("deployment", {}), **_given(flags)}
        workload = {**tables.get("workload", {}), **_given(load)}
        _complete(deployment, workload)
        places = [f"{study} [{table}]" if study else "flags" for table in _TABLES]
        try:
            own, replicas = replicas_of(deployment, places[0])
            asked = Study(
                deployment=deployment_from_mapping(own, places[0]),
                workload=workload_from_mapping(
                    workload, places[1], folder=study.parent if study else None
                ),
                replicas=replicas,
                posterior=DEFAULT_POSTERIOR,
            )
        except InputError as error:
            if study or not str(error).startswith(places[0]):  # a file is at fault
                raise
            raise UsageError(str(error)) from error
        if study:
            from tailcast.study import load_study

            base = load_study(study)
            asked = replace(asked, objectives=base.objectives, risk=base.risk)
            asked = replace(asked, posterior=base.posterior, search=base.search)
            asked = replace(asked, mode=base.mode, horizon=base.horizon, curves=base.curves)
            asked = replace(asked, conformal=base.conformal)
    if wanted:
        asked = replace(asked, objectives=wanted)
    if mode is not None:
        from tailcast.engine.point_model import checked_mode

        asked = replace(asked, mode=checked_mode(mode))
    return asked if posterior is None else replace(asked, posterior=posterior)


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def _complete(deployment: dict[str, Any], workload: dict[str, Any]) -> None:
    missing = [f"--{name}" for name in ("model", "gpu") if name not in deployment]
    if not any(key in workload for key in ("rate", "stages", "concurrency", "preset")):
        missing.append("--rate")
    if not any(key in workload for key in ("preset", "classes", "lengths")):
        missing += [
            f"--{name.replace('_', '-')}"
            for name in ("input_tokens", "output_tokens")
            if name not in workload
        ]
    if missing:
        raise UsageError(f"give {', '.join(missing)}, or a study file")
    if "rate" in workload and not any(k in workload for k in ("n_requests", "duration", "stages")):
        workload["n_requests"] = DEFAULT_REQUESTS
