"""Check that everything public has a complete numpydoc docstring."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from enum import Enum

from numpydoc.validate import validate

import tailcast

CHECKS = {"GL01", "GL08", "SS01", "SS03", "PR01", "PR02", "RT01", "RT03"}


def public_names() -> Iterator[str]:
    """Dotted names of everything public that the package defines."""
    for info in pkgutil.walk_packages(tailcast.__path__, "tailcast."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == info.name
            if name.startswith("_") or not own:
                continue
            if inspect.isfunction(value):
                yield f"{info.name}.{name}"
            elif inspect.isclass(value):
                yield f"{info.name}.{name}"
                for member, item in vars(value).items():
                    callable_or_property = inspect.isfunction(item) or isinstance(
                        item, property | classmethod | staticmethod
                    )
                    if not member.startswith("_") and callable_or_property:
                        yield f"{info.name}.{name}.{member}"


def documents_fields(name: str) -> bool:
    """Whether parameters are documented elsewhere.

    True for enums, tuples and protocols (by their members) and for commands (by their options).
    """
    if name.startswith("tailcast.cli."):
        return True
    module, _, last = name.rpartition(".")
    owner = getattr(sys.modules.get(module.rpartition(".")[0]), module.rpartition(".")[2], None)
    value = getattr(sys.modules.get(module), last, owner)
    return inspect.isclass(value) and (
        issubclass(value, Enum | tuple) or getattr(value, "_is_protocol", False)
    )


def findings(name: str) -> list[str]:
    """Complaints about one object."""
    found = validate(name)
    return [
        f"{found['file']}:{found['file_line']} {name}: {code} {text}"
        for code, text in found["errors"]
        if code in CHECKS and not (code == "PR01" and documents_fields(name))
    ]


def main() -> int:
    """Print every complaint; the exit code says whether there is none."""
    names = list(public_names())
    complaints = [line for name in names for line in findings(name)]
    verdict = "\n".join(complaints) or f"numpydoc: {len(names)} objects, no finding"
    sys.stdout.write(verdict + "\n")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
