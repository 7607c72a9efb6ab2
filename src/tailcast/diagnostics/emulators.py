"""How far each emulator is from the engine where the posterior sits."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from tailcast.diagnostics.fitted import FittedData
from tailcast.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorError:
    """Emulator of one summary against fresh engine runs at posterior draws; log units.

    Parameters
    ----------
    run : str
        Run.
    stage : int
        Load stage.
    summary : str
        For example ``"ttft.p99"``.
    bias, rmse : float
        Mean and root mean square error.
    residual : float
        Error that the likelihood allows the emulator.
    scale : float
        Scale of the whole likelihood of this summary, median over draws.
    """

    run: str
    stage: int
    summary: str
    bias: float
    rmse: float
    residual: float
    scale: float

    @property
    def ratio(self) -> float:
        """Error over the scale of the likelihood: well below 1 it does not matter."""
        return self.rmse / self.scale

    @property
    def bias_ratio(self) -> float:
        """Bias over the scale of the likelihood."""
        return abs(self.bias) / self.scale


def emulator_errors(tree: xr.DataTree, data: FittedData) -> tuple[EmulatorError, ...]:
    """Stored comparison of emulators and engine.

    Parameters
    ----------
    tree : xarray.DataTree
        With the group ``emulator_check``; a fit to step timings alone has none.
    data : FittedData
        For the scale of each likelihood.

    Returns
    -------
    tuple of EmulatorError
        In the order of the evidence.

    Raises
    ------
    InputError
        If the check is of other summaries than the evidence holds.
    """
    if "emulator_check" not in tree.children:
        return ()
    check = tree["emulator_check"].to_dataset()
    scale = dict(zip(data.names, np.median(data.scale, axis=0), strict=True))
    errors = []
    for k, name in enumerate(str(v) for v in check["summary"].values):
        if name not in scale:
            raise InputError(f"emulator check has summary {name!r} and the evidence has not")
        run, stage, summary = name.rsplit("/", 2)
        errors.append(
            EmulatorError(
                run=run,
                stage=int(stage),
                summary=summary,
                bias=float(check["bias"].values[k]),
                rmse=float(check["rmse"].values[k]),
                residual=float(check["residual"].values[k]),
                scale=float(scale[name]),
            )
        )
    return tuple(errors)
