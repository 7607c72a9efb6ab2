"""The `tailcast` command: parse, call one library function, render once."""

import sys
from functools import cache
from typing import Annotated, Any

import typer

from tailcast.cli.emit import VERBOSITY, silence
from tailcast.errors import TailcastError

# Typer brings a click of its own from 0.26 on; its error class is reached through a public one.
_CLICK_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

_INTERRUPTED = 130

app = typer.Typer(
    name="tailcast",
    help="Bayesian latency forecasts for LLM serving: P99 credible intervals and P(SLO miss).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tailcast {version('tailcast')}")
        raise typer.Exit


@app.callback()
def _root(
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress on stderr.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="More on stderr.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    VERBOSITY["level"] = 0 if quiet else 2 if verbose else 1


@cache
def _register() -> None:
    from tailcast.cli import (
        autoscale,
        calibrate,
        catalog,
        compare,
        evaluate,
        fit,
        measure,
        observe,
        posterior,
        predict,
        queue,
        replay,
        report,
        search,
        size,
        slo,
        trace,
        tune,
        update,
    )

    app.command("predict")(predict.predict)
    app.command("slo")(slo.slo)
    app.command("search")(search.search)
    app.command("measure")(measure.measure)
    app.command("tune")(tune.tune)
    app.command("size")(size.size)
    app.command("autoscale")(autoscale.autoscale)
    app.command("replay")(replay.replay)
    app.command("report")(report.report)
    app.command("evaluate")(evaluate.evaluate)
    app.command("calibrate")(calibrate.calibrate)
    app.command("update")(update.update)
    app.command("fit")(fit.fit)
    app.command("compare")(compare.compare)
    app.command("observe")(observe.observe)
    app.add_typer(posterior.app, name="posterior")
    app.add_typer(catalog.app, name="catalog")
    app.add_typer(trace.app, name="trace")
    app.add_typer(queue.app, name="queue")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the code that STYLE gives to the outcome.

    Parameters
    ----------
    arguments : list of str, optional
        Instead of ``sys.argv[1:]``.

    Raises
    ------
    SystemExit
        Always: 0 done, 1 the answer is no, 2 usage, 3 bad input, 4 inference failed.
    """
    _register()
    try:
        outcome = app(args=arguments, prog_name="tailcast", standalone_mode=False)
        sys.stdout.flush()
        code = outcome if isinstance(outcome, int) else 0
        if code == _INTERRUPTED:  # typer swallows the exception itself
            raise KeyboardInterrupt
    except _CLICK_ERROR as error:
        code = _usage(error)
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted; nothing half-written was left", _INTERRUPTED)
    except BrokenPipeError:  # the reader has seen enough
        silence(sys.stdout)
        code = 0
    except TailcastError as error:
        code = _complain(str(error), error.exit_code)
    except MemoryError:
        code = _complain("not enough memory; ask for fewer requests or draws", 2)
    except RecursionError:
        code = _complain("a file is nested too deep to be read", 3)
    except OSError as error:
        silence(sys.stdout)
        place = error.filename or "standard output"
        code = _complain(f"{place}: cannot be used ({error.strerror or error})", 3)
    sys.exit(code)


def _usage(error: Any) -> int:
    """Tell what is wrong with the words of the command line, and where help is."""
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        print(message)
        return 0
    command = error.ctx.command_path if error.ctx else "tailcast"
    message = message.replace("Value error, ", "").rstrip(".")
    joint = " See" if message.endswith("?") else "; see"
    return _complain(f"{message}{joint} {command} --help", 2)


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"tailcast: {line}", file=sys.stderr)
    return code
