"""A check of a posterior for people, and two posteriors beside each other."""

import numpy as np

from tailcast.diagnostics.check import PosteriorCheck
from tailcast.diagnostics.definition import failures
from tailcast.diagnostics.posterior_comparison import PosteriorComparison
from tailcast.report.tables import render_rows

_N_EMULATOR = 8


def requirement_rows(check: PosteriorCheck) -> tuple[list[str], list[list[str]]]:
    """What must hold, and whether it does.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    rows = [
        ["ok" if r.passed else "FAILS", r.name, r.found, r.limit, r.note]
        for r in check.requirements
    ]
    return ["", "requirement", "found", "demanded", "where"], rows


def check_coefficient_rows(check: PosteriorCheck) -> tuple[list[str], list[list[str]]]:
    """Prior beside posterior of each coefficient.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    rows = [
        [
            c.name,
            c.unit,
            f"{c.prior[1]:.3g}",
            f"{c.prior[0]:.3g} .. {c.prior[2]:.3g}",
            f"{c.posterior[1]:.3g}",
            f"{c.posterior[0]:.3g} .. {c.posterior[2]:.3g}",
            f"{c.contraction:.2f}",
            "" if c.identified else "not identified",
        ]
        for c in check.coefficients
    ]
    return ["coefficient", "unit", "prior", "90 %", "posterior", "90 %", "sd ratio", ""], rows


def predictive_rows(check: PosteriorCheck) -> tuple[list[str], list[list[str]]]:
    """Posterior predictive p-values and leave-one-out by kind of datum.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    rows = []
    for c in check.predictive:
        own = np.array([kind == c.kind for kind in check.loo.data.kinds])
        good = own & check.loo.good
        inside = float(np.mean(np.abs(2 * check.loo.pit[good] - 1) <= 0.9)) if good.any() else 0.0
        rows.append(
            [
                c.kind,
                str(c.n),
                *(f"{c.p[name]:.3f}" for name in ("bias", "spread", "worst")),
                f"{inside:.2f}",
                f"{float(check.loo.khat[own].max()):.2f}",
                str(int(np.sum(own & ~check.loo.good))),
            ]
        )
    header = ["data", "n", "p bias", "p spread", "p worst", "LOO in 90 %", "worst k-hat", "bad"]
    return header, rows


def emulator_rows(check: PosteriorCheck) -> tuple[list[str], list[list[str]]]:
    """The emulators that are furthest from the engine.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    worst = sorted(check.emulators, key=lambda e: -e.ratio)[:_N_EMULATOR]
    rows = [
        [
            e.run,
            str(e.stage),
            e.summary,
            f"{e.bias:+.3f}",
            f"{e.rmse:.3f}",
            f"{e.residual:.3f}",
            f"{e.scale:.3f}",
            f"{e.ratio:.2f}",
        ]
        for e in worst
    ]
    header = ["run", "stage", "summary", "bias", "rmse", "allowed", "likelihood", "rmse/likelihood"]
    return header, rows


def check_report(check: PosteriorCheck, style: str) -> str:
    """All tables and lines of a check.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.
    style : {"table", "markdown", "csv"}
        csv holds the requirements alone.

    Returns
    -------
    str
        Without a final newline.
    """
    requirements = render_rows(*requirement_rows(check), style)
    if style == "csv":
        return requirements
    parts = [
        requirements,
        "Coefficients of the population (sd ratio: posterior over prior at the best known level):",
        render_rows(*check_coefficient_rows(check), style),
        "Data against replications (p near 0 or 1: the model does not make such data) and each "
        "datum predicted without it:",
        render_rows(*predictive_rows(check), style),
    ]
    if check.emulators:
        parts += [
            f"Emulators furthest from the engine, of {len(check.emulators)} (log units):",
            render_rows(*emulator_rows(check), style),
        ]
    return "\n\n".join([*parts, check_text(check)])


def check_text(check: PosteriorCheck) -> str:
    """Lines under the tables.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.

    Returns
    -------
    str
        Leave-one-out, hull, evaluation, verdict.
    """
    loo, scope = check.loo, dict(check.posterior.card.get("scope", {}))
    pit = np.histogram(loo.pit[loo.good], 5, (0.0, 1.0))[0]
    lines = [
        f"Leave-one-out: ELPD {loo.elpd.sum():.1f} over {len(loo.pit)} data, PIT in fifths "
        f"{' '.join(map(str, pit))} (p of uniform {loo.uniformity:.2g}); "
        + (
            f"{int(np.sum(~loo.good))} data have k-hat above 0.7 and are left out: "
            + ", ".join(f"{kind} {n}" for kind, n in loo.bad_by_kind.items())
            if not loo.good.all()
            else "no k-hat above 0.7"
        )
        + ".",
        "Fitted range: "
        + "; ".join(
            f"{name.replace('_', ' ')} {', '.join(scope[name])}"
            for name in ("accelerator", "interconnect", "engine_version", "family")
            if scope.get(name)
        )
        + ". A prediction elsewhere draws new level effects.",
    ]
    unmoved = check.unidentified
    if unmoved:
        lines.append(f"Not identified by the data, so at the prior: {', '.join(unmoved)}.")
    if check.evaluation is not None:
        found = check.evaluation
        covered = ", ".join(
            f"{c.level} %: {c.share:.2f} ({c.low:.2f}-{c.high:.2f})" for c in found.coverage
        )
        lines.append(
            f"On {found.n_experiment} runs that were evaluated: {covered}; PIT in fifths "
            f"{' '.join(f'{v:.1f}' for v in found.pit)}."
        )
        if found.extrapolates:
            lines.append(f"Outside the fitted range: {', '.join(found.extrapolates)}.")
    failed = failures(check.requirements)
    lines.append(
        f"{check.posterior.name} meets all {len(check.requirements)} requirements."
        if not failed
        else f"{check.posterior.name} fails {len(failed)} of {len(check.requirements)}: "
        + "; ".join(r.name for r in failed)
        + "."
    )
    return "\n".join(lines)


def comparison_rows(found: PosteriorComparison) -> tuple[list[str], list[list[str]]]:
    """Coefficients of two posteriors beside each other.

    Parameters
    ----------
    found : PosteriorComparison
        Two posteriors.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    rows = [
        [
            s.name,
            s.unit,
            f"{s.first[1]:.3g}",
            f"{s.first[0]:.3g} .. {s.first[2]:.3g}",
            f"{s.second[1]:.3g}",
            f"{s.second[0]:.3g} .. {s.second[2]:.3g}",
            f"{s.shift:+.2f}",
            f"{s.sd_ratio:.2f}",
        ]
        for s in found.shifts
    ]
    return ["coefficient", "unit", "first", "90 %", "second", "90 %", "shift", "sd ratio"], rows


def comparison_text(found: PosteriorComparison) -> str:
    """Lines under the comparison.

    Parameters
    ----------
    found : PosteriorComparison
        Two posteriors.

    Returns
    -------
    str
        What was compared, and which data only one has seen.
    """
    lines = [
        f"First {found.first}, second {found.second}"
        + (f" ({found.related})" if found.related else "")
        + ". Shift: difference of the mean log excess over the first's sd; sd ratio: below 1 the "
        "second is surer."
    ]
    for label, names in (
        ("Coefficients only in the first", found.only_first),
        ("Coefficients only in the second", found.only_second),
        ("Data only the first has seen", found.data_only_first),
        ("Data only the second has seen", found.data_only_second),
    ):
        if names:
            lines.append(f"{label}: {', '.join(names)}.")
    return "\n".join(lines)
