"""Options by which a user says what a recorded run was served on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tailcast.inference.recorded import Stated

ServedByOption = Annotated[
    Path | None, typer.Option("--study", help="Study whose [deployment] served the traces.")
]


def stated_server(
    study: Path | None, llm: str | None, gpu: str | None, tensor_parallel: int | None
) -> "Stated":
    """What the user says of a deployment, by a study file or by flags.

    Parameters
    ----------
    study : pathlib.Path, optional
        TOML file with a table ``[deployment]``; flags override it.
    llm, gpu : str, optional
        Name or path.
    tensor_parallel : int, optional
        Accelerators per replica.

    Returns
    -------
    Stated
        Empty where nothing is said: then the files' own headers count.

    Raises
    ------
    UsageError
        If the study has no ``[deployment]``.
    InputError
        If it is malformed.
    """
    from tailcast.errors import UsageError
    from tailcast.inference.recorded import Stated
    from tailcast.study import deployment_from_mapping, read_study, replicas_of

    flags = {"model": llm, "gpu": gpu, "tensor_parallel": tensor_parallel}
    given = {name: value for name, value in flags.items() if value is not None}
    if study is None:
        return Stated(llm=llm, gpu=gpu, tensor_parallel=tensor_parallel)
    table = read_study(study).get("deployment")
    if not table:
        raise UsageError(f"{study}: no table [deployment] to say what served")
    own, _ = replicas_of({**table, **given}, f"{study} [deployment]")
    return Stated(
        deployment=deployment_from_mapping(own, f"{study} [deployment]"),
        llm=str(own["model"]),
        gpu=str(own["gpu"]),
        tensor_parallel=int(own.get("tensor_parallel", 1)),
    )
