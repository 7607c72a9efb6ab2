"""YAML files, with the place in every complaint."""

from pathlib import Path
from typing import Any

import yaml

from tailcast.errors import InputError


class _Loader(yaml.SafeLoader):
    """Safe loader that refuses a key given twice, where YAML would keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key.value!r} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# A date stays the text that the file has.
_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path) -> Any:
    """Content of a YAML file.

    Parameters
    ----------
    path : pathlib.Path
        File to read.

    Returns
    -------
    object
        Mappings, lists and scalars; dates stay text.

    Raises
    ------
    InputError
        If the file cannot be read or is not one YAML document; one line with line and column.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not valid YAML: {reason}") from error
