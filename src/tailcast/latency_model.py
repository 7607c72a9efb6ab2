"""Latency models as data: coefficients, units, priors, physical floors, hierarchy, discrepancy."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailcast.artifacts import artifact_folder
from tailcast.basis import BASIS_NAMES
from tailcast.errors import InputError, near_name
from tailcast.toml_file import parsed_toml

OVERHEADS = ("ingest", "finish", "stream", "warm_up", "schedule_lag")
"""Coefficients that never enter the step clock."""

WARM_UP_REQUESTS = 100
"""First requests of a run that wait for cold kernels and caches (data/README.md, caveat 9)."""

GROUPS = ("accelerator", "interconnect", "engine_version", "family", "llm")
"""What coefficients may vary by."""

DISCREPANCIES = (
    "deployment",
    "moe",
    "tensor_parallel",
    "run",
    "long_decode",
    "ttft",
    "saturation",
)
"""Errors of a whole prediction, each with a learned scale.

Step speed by deployment, more of it for mixtures of experts and under tensor parallelism; step
speed by run, more of it where outputs are long; TTFT by run, more of it near saturation.
"""

LATENTS = ("uncached_share",)
"""What a run's description may leave unknown, drawn from a prior for each run."""

LONG_DECODE_TOKENS = 1000.0
"""Mean output length from which a run counts as a long decode."""

NEAR_SATURATION = 0.9
"""Offered load from which a stage counts as near saturation."""

TTFT_NU = 4.0
"""Degrees of freedom of the TTFT discrepancy of a run: a few runs are far off, most are near."""

_LEAST = 1e-6
"""Least median and log sd of a prior: both enter as logs and divisors."""

_TABLES = ("model", "coefficients", "discrepancy", "latent", "noise")

_MODEL_KEYS = ("name", "version", "mode", "description", "reference")

_MODES = ("vllm", "blis")

_NOISES = ("ttft", "itl", "tpot", "e2e", "queue_delay", "step")
"""Whose observation scale a model may state."""

_COEFFICIENT_KEYS = {"basis", "unit", "floor", "centre", "sd", "value", "effects", "reference"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Log-normal prior of a positive scale.

    Parameters
    ----------
    centre : float
        Prior median.
    sd : float
        Standard deviation of the log.
    """

    centre: float
    sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """One coefficient of a latency model.

    Parameters
    ----------
    name : str
        Unique in its model.
    basis : str
        Name in `tailcast.basis.BASIS_NAMES`, or one of `OVERHEADS`.
    unit : str
        ``"1"`` for roofline terms, ``"s"`` for overheads, ``"step"`` for the lag.
    floor : float
        Physical lower bound; 1 for a time at the datasheet's peak that can bind.
    centre : float
        Prior median, or the value itself where `sd` is 0.
    sd : float
        Standard deviation of ``log(value - floor)``; 0 for a fixed coefficient.
    effects : mapping of str to float
        Group name to the sd of that group's offset of ``log(value - floor)``.
    reference : str
        Where basis and prior come from.
    """

    name: str
    basis: str
    unit: str
    floor: float
    centre: float
    sd: float
    effects: Mapping[str, float]
    reference: str

    @property
    def fixed(self) -> bool:
        """Whether the coefficient has a value instead of a prior."""
        return self.sd == 0

    @property
    def is_overhead(self) -> bool:
        """Whether the coefficient stays out of the step clock."""
        return self.basis in OVERHEADS


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyModel:
    """A latency model read from ``model.toml``.

    Parameters
    ----------
    name : str
        Folder name of the model.
    version : int
        Version stated in the file.
    mode : str
        Engine that runs it: ``"vllm"`` or ``"blis"``.
    coefficients : tuple of Coefficient
        In the file's order.
    discrepancy : mapping of str to Scale
        Prior of the scale of some of `DISCREPANCIES`.
    latent : mapping of str to Scale
        Prior of some of `LATENTS`: median and sd of the log odds.
    noise : mapping of str to Scale
        Prior of the observation scale by ``"metric.statistic"``.
    noise_nu : float
        Degrees of freedom of the Student-t observation error.
    sha256 : str
        Hash of the file.
    """

    name: str
    version: int
    mode: str
    coefficients: tuple[Coefficient, ...]
    discrepancy: Mapping[str, Scale]
    latent: Mapping[str, Scale]
    noise: Mapping[str, Scale]
    noise_nu: float
    sha256: str

    @property
    def names(self) -> tuple[str, ...]:
        """Coefficient names in order."""
        return tuple(c.name for c in self.coefficients)

    @property
    def is_fixed(self) -> bool:
        """Whether no coefficient has a prior."""
        return all(c.fixed for c in self.coefficients)

    def coefficient(self, name: str) -> Coefficient:
        """Coefficient of that name.

        Parameters
        ----------
        name : str
            Coefficient name.

        Returns
        -------
        Coefficient
            With that name.

        Raises
        ------
        InputError
            If the model has none.
        """
        for coefficient in self.coefficients:
            if coefficient.name == name:
                return coefficient
        raise InputError(
            f"latency model {self.name!r} has no coefficient {name!r}; "
            f"{near_name(name, self.names)}"
        )


def load_latency_model(name: str) -> LatencyModel:
    """Read a latency model.

    Parameters
    ----------
    name : str
        Shipped name, or the path of a folder with a ``model.toml``.

    Returns
    -------
    LatencyModel
        Checked.

    Raises
    ------
    UsageError
        If there is no such model.
    InputError
        If the file is malformed: unknown key, missing value, impossible number.
    """
    path = artifact_folder("models", name) / "model.toml"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    content = parsed_toml(raw, path)
    for key in content:
        if key not in _TABLES:
            raise InputError(f"{path}: unknown table [{key}]; {near_name(key, _TABLES)}")
    header = _header(path, content)
    entries = _table(path, content, "coefficients")
    if not entries:
        raise InputError(f"{path}: no [coefficients.<name>] table")
    noise = _table(path, content, "noise")
    nu = _number(path, "noise.nu", noise.pop("nu", 4.0), low=1.0)
    return LatencyModel(
        name=str(header.get("name", path.parent.name)),
        version=int(_number(path, "model.version", header.get("version", 1), low=1.0)),
        mode=str(header.get("mode", "vllm")),
        coefficients=tuple(
            _coefficient(path, key, value, any_basis=header.get("mode") == "blis")
            for key, value in entries.items()
        ),
        discrepancy={
            k: _scale(path, f"discrepancy.{k}", v)
            for k, v in _known(path, content, "discrepancy", DISCREPANCIES)
        },
        latent={
            k: _scale(path, f"latent.{k}", v) for k, v in _known(path, content, "latent", LATENTS)
        },
        noise={_noise_name(path, k): _scale(path, f"noise.{k}", v) for k, v in noise.items()},
        noise_nu=nu,
        sha256=hashlib.sha256(raw).hexdigest(),
    )


def _table(path: Path, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{path}: {name} must be a table [{name}], got {found!r:.60}")
    return dict(found)


def _header(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    header = _table(path, content, "model")
    for key in header:
        if key not in _MODEL_KEYS:
            raise InputError(
                f"{path}: model has the unknown key {key!r}; {near_name(key, _MODEL_KEYS)}"
            )
    if header.get("mode", "vllm") not in _MODES:
        raise InputError(
            f"{path}: model.mode must be one of {', '.join(_MODES)}, got {header['mode']!r:.60}"
        )
    return header


def _noise_name(path: Path, name: str) -> str:
    metric, dot, _ = name.partition(".")
    if metric not in _NOISES or not dot:
        raise InputError(
            f"{path}: noise {name!r} is no metric.statistic; {near_name(metric, _NOISES)}"
        )
    return name


def _known(
    path: Path, content: Mapping[str, Any], table: str, names: tuple[str, ...]
) -> list[tuple[str, Any]]:
    entries = _table(path, content, table)
    for key in entries:
        if key not in names:
            raise InputError(f"{path}: unknown {table} {key!r}; {near_name(key, names)}")
    return [(name, entries[name]) for name in names if name in entries]


def _number(path: Path, where: str, value: Any, *, low: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{path}: {where} must be a number, got {value!r}")
    if not (math.isfinite(value) and value >= low):
        raise InputError(f"{path}: {where} must be finite and at least {low:g}, got {value!r}")
    return float(value)


def _scale(path: Path, where: str, entry: Any) -> Scale:
    if not isinstance(entry, dict) or set(entry) != {"centre", "sd"}:
        raise InputError(f"{path}: {where} needs exactly the keys centre and sd, got {entry!r}")
    return Scale(
        centre=_number(path, f"{where}.centre", entry["centre"], low=_LEAST),
        sd=_number(path, f"{where}.sd", entry["sd"], low=_LEAST),
    )


def _coefficient(
    path: Path, name: str, entry: Mapping[str, Any], *, any_basis: bool
) -> Coefficient:
    where = f"coefficients.{name}"
    if not isinstance(entry, Mapping):
        raise InputError(f"{path}: {where} must be a table, got {entry!r:.60}")
    for key in entry:
        if key not in _COEFFICIENT_KEYS:
            raise InputError(
                f"{path}: {where} has the unknown key {key!r}; {near_name(key, _COEFFICIENT_KEYS)}"
            )
    basis = str(entry.get("basis", name))
    if basis not in BASIS_NAMES and basis not in OVERHEADS and not any_basis:
        hint = near_name(basis, (*BASIS_NAMES, *OVERHEADS))
        raise InputError(f"{path}: {where} names the unknown basis {basis!r}; {hint}")
    fixed = "value" in entry
    if fixed == ("centre" in entry):
        raise InputError(f"{path}: {where} needs either value or centre and sd")
    floor = _number(path, f"{where}.floor", entry.get("floor", 0.0))
    centre = _number(path, f"{where}.centre", entry["value"] if fixed else entry["centre"])
    sd = 0.0 if fixed else _number(path, f"{where}.sd", entry.get("sd"), low=_LEAST)
    if fixed and centre < floor:
        raise InputError(f"{path}: {where} has value {centre:g} below its floor {floor:g}")
    if not fixed and not centre > floor:
        raise InputError(
            f"{path}: {where} has centre {centre:g}, which must exceed floor {floor:g}"
        )
    varies = _table(path, entry, "effects")
    effects = {k: _number(path, f"{where}.effects.{k}", v) for k, v in varies.items()}
    for group in effects:
        if group not in GROUPS:
            raise InputError(f"{path}: {where} varies by {group!r}; {near_name(group, GROUPS)}")
    return Coefficient(
        name=name,
        basis=basis,
        unit=str(entry.get("unit", "1")),
        floor=floor,
        centre=centre,
        sd=sd,
        effects=effects,
        reference=str(entry.get("reference", "")),
    )
