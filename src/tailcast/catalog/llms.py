"""LLMs by name, from the package's restated configurations, or from any ``config.json``."""

import json
import os
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from tailcast.catalog.names import find_entry, name_index, plain_name
from tailcast.errors import CatalogError
from tailcast.llm import Llm, llm_from_config, llm_from_file, quantised

# Variants of one architecture: the weights differ, their number and layout do not.
_VARIANT = re.compile(r"-(hf|instruct|chat|it|base)(?=-|$)")
# Suffixes under which quantised copies are published, and the format each means.
_FORMAT_BY_SUFFIX = (
    (re.compile(r"-(fp8-dynamic|fp8-kv|fp8)$"), "fp8"),
    (re.compile(r"-(quantized\.w8a8|w8a8|int8)$"), "int8"),
    (re.compile(r"-(quantized\.w4a16|w4a16|awq-int4|gptq-int4|awq|int4|4bit)$"), "int4"),
)

_OTHERWISE = " Any other LLM can be given by the path of its config.json."


def llm(name_or_path: str | Path) -> Llm:
    """LLM of that name, or described by that file.

    Parameters
    ----------
    name_or_path : str or Path
        A catalogue name, a Hugging Face name (publisher optional, case free; ``-hf``,
        ``-instruct`` and ``-chat`` variants share an architecture; ``-FP8``, ``-AWQ`` and like
        suffixes quantise it), or the path of a ``config.json`` or of the folder that holds one.

    Returns
    -------
    Llm
        Its architecture.

    Raises
    ------
    CatalogError
        If the name is unknown or ambiguous.
    InputError
        If a file is given that cannot be used.
    """
    if _is_path(name_or_path):
        return llm_from_file(Path(name_or_path).expanduser())
    name_or_path = str(name_or_path)
    spelled, index = _spelling(name_or_path), _index()
    if spelled not in index:
        for suffix, weights in _FORMAT_BY_SUFFIX:
            stem = _spelling(suffix.sub("", spelled))
            if stem != spelled and stem in index:
                return quantised(_entry(index[stem]), weights)
    return _entry(find_entry("LLM", name_or_path, spelled, index, otherwise=_OTHERWISE))


def names() -> list[str]:
    """Canonical names, sorted.

    Returns
    -------
    list of str
        One for each LLM of the package.
    """
    return sorted(_records())


def _is_path(given: str | Path) -> bool:
    """A path by its look, or a name that is a folder here with a configuration in it."""
    if isinstance(given, Path) or given.endswith(".json") or given.startswith(("/", ".", "~")):
        return True
    return bool(given) and os.path.exists(os.path.join(given, "config.json"))


def _spelling(name: str) -> str:
    spelled = _VARIANT.sub("", plain_name(name.rsplit("/", 1)[-1]))
    return spelled.replace("meta-llama-", "llama-")


@cache
def _index() -> dict[str, str]:
    aliases_by_name: dict[str, list[str]] = {}
    for name, record in _records().items():
        aliases = record["aliases"]
        if not isinstance(aliases, list):
            raise CatalogError(f"{name}.json: aliases must be a list")
        aliases_by_name[name] = [str(alias) for alias in aliases]
    return name_index(aliases_by_name, _spelling)


@cache
def _entry(name: str) -> Llm:
    config = _records()[name]["config"]
    if not isinstance(config, dict):
        raise CatalogError(f"{name}.json: config must be an object")
    return llm_from_config(config, name)


@cache
def _records() -> dict[str, dict[str, object]]:
    folder = files("tailcast.catalog") / "llms"
    records: dict[str, dict[str, object]] = {}
    for entry in folder.iterdir():
        if entry.name.endswith(".json"):
            record = json.loads(entry.read_text(encoding="utf-8"))
            records[str(record["name"])] = record
    return records
