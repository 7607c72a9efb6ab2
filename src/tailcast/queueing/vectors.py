"""Run every case of a vector file and report what differs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tailcast.errors import InputError, TailcastError, near_name
from tailcast.queueing import vector_chain, vector_fits, vector_refusals
from tailcast.queueing.vector_cases import (
    Results,
    SkipCaseError,
    VectorCase,
    difference,
    read_cases,
)

Status = Literal["passed", "failed", "skipped"]

_RUN_BY_KIND: Mapping[str, Callable[[VectorCase], Results]] = {
    "primitives": vector_chain.primitives,
    "prefill_time": vector_chain.prefill_time,
    "decode_time": vector_chain.decode_time,
    "analyze": vector_chain.analyze,
    "slo_throughput": vector_chain.slo_throughput,
    "size": vector_chain.slo_throughput,
    "optimal_concurrency": vector_chain.optimal_concurrency_case,
    "closed_form_brackets": vector_chain.closed_form_brackets,
    "birth_death": vector_chain.birth_death,
    "bisection": vector_refusals.bisection,
    "invalid_input": vector_refusals.refusal,
    "valid_input": vector_refusals.refusal,
    "initial_guess": vector_fits.initial_guess,
    "condition_number": vector_fits.condition_number_case,
    "calibration": vector_fits.calibration,
    "fit_loss": vector_fits.fit_loss,
    "joint_fit": vector_fits.joint_fit,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """What became of one case.

    Parameters
    ----------
    name, kind, variant : str
        The case.
    status : {"passed", "failed", "skipped"}
        Outcome.
    detail : str
        What differs, or why it was skipped; empty where it passed.
    """

    name: str
    kind: str
    variant: str
    status: Status
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorReport:
    """Outcomes of a vector file.

    Parameters
    ----------
    path : Path
        The file.
    outcomes : tuple of CaseOutcome
        In the file's order.
    """

    path: Path
    outcomes: tuple[CaseOutcome, ...]

    def with_status(self, status: Status) -> list[CaseOutcome]:
        """Outcomes of one sort.

        Parameters
        ----------
        status : {"passed", "failed", "skipped"}
            Sort.

        Returns
        -------
        list of CaseOutcome
            In the file's order.
        """
        return [outcome for outcome in self.outcomes if outcome.status == status]

    @property
    def n_passed(self) -> int:
        """Cases within their tolerances."""
        return len(self.with_status("passed"))

    @property
    def n_failed(self) -> int:
        """Cases that differ."""
        return len(self.with_status("failed"))

    @property
    def n_skipped(self) -> int:
        """Cases that could not be run."""
        return len(self.with_status("skipped"))

    @property
    def summary(self) -> str:
        """The counts in one line."""
        return f"{self.n_passed} passed, {self.n_failed} failed, {self.n_skipped} skipped"


def _outcome(case: VectorCase) -> CaseOutcome:
    status: Status = "passed"
    run = _RUN_BY_KIND.get(case.kind)
    detail = ""
    try:
        if run is None:
            hint = near_name(case.kind, _RUN_BY_KIND)
            raise SkipCaseError(f"no test of the kind {case.kind!r}; {hint}")
        found = run(case)
        known = [field for field in case.expected if field in found]
        unknown = [field for field in case.expected if field not in found]
        differences = [difference(case, field, found[field]) for field in known]
        differs = [text for text in differences if text is not None]
        if differs:
            status, detail = "failed", "; ".join(differs)
        elif unknown:
            raise SkipCaseError(f"{', '.join(unknown)} cannot be compared here")
    except SkipCaseError as reason:
        status, detail = "skipped", str(reason)
    except InputError:
        raise
    except TailcastError as error:
        status, detail = "failed", f"refused: {error}"
    return CaseOutcome(
        name=case.name, kind=case.kind, variant=case.variant, status=status, detail=detail
    )


def check_vectors(path: Path) -> VectorReport:
    """Run every case of a vector file in the format of ``three_numbers_vectors.yaml``.

    Parameters
    ----------
    path : Path
        YAML file. Data sets it names are looked for in the folders above it.

    Returns
    -------
    VectorReport
        One outcome a case. A kind, a variant or a quantity that is not known here, and a data
        set that is not here, make a skipped case with its reason.

    Raises
    ------
    InputError
        If the file or a case is malformed.
    """
    return VectorReport(path=path, outcomes=tuple(_outcome(case) for case in read_cases(path)))
