"""How to observe: which server, which interface, how patiently."""

import math
import os
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from tailcast.errors import TailcastError, UsageError, near_name
from tailcast.observe.dialect import DIALECTS, ENDPOINTS

API_KEY_VARIABLES = ("TAILCAST_API_KEY", "OPENAI_API_KEY")


class ServerError(TailcastError, RuntimeError):
    """A server that does not answer, or not as an OpenAI-compatible one would."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveSettings:
    """Everything about a run but its requests.

    Parameters
    ----------
    url : str
        Address of the server, with or without ``/v1``.
    llm : str, optional
        Served model name; the server's only one where absent.
    endpoint : str
        ``completions`` or ``chat``.
    dialect : str
        ``auto``, ``vllm``, ``llamacpp`` or ``plain``.
    prompt_seed : int, optional
        Seed of the synthetic prompts. Fresh for every run where absent, since prompts that a server
        has seen in an earlier run may still be in its prefix cache.
    warm_up : int
        Requests sent before the run, one at a time, that are not recorded.
    timeout : float
        Seconds after which the client gives a request up, counted from when it was due; inf for
        never. A request's own time-out applies too.
    stall_timeout : float
        Seconds without a byte, time in the server's queue included, after which a request is given
        up.
    connect_timeout : float
        Seconds to open a connection.
    scrape_interval : float
        Seconds between looks at ``/metrics``.
    """

    url: str
    llm: str | None = None
    endpoint: str = "completions"
    dialect: str = "auto"
    prompt_seed: int | None = None
    warm_up: int = 0
    timeout: float = math.inf
    stall_timeout: float = 300.0
    connect_timeout: float = 10.0
    scrape_interval: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", base_url(self.url))
        for name, known in (("endpoint", ENDPOINTS), ("dialect", ("auto", *DIALECTS))):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(f"no {name} {value!r}; {near_name(value, known)}")
        for name in ("timeout", "stall_timeout", "connect_timeout", "scrape_interval"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("prompt_seed", "warm_up"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"{name} must not be negative, got {value!r}")


def base_url(text: str) -> str:
    """Address of a server, without ``/v1`` and without a slash at the end.

    Parameters
    ----------
    text : str
        What the user typed; ``http://`` is added where no scheme is given.

    Returns
    -------
    str
        Scheme, host, port and path.

    Raises
    ------
    UsageError
        If it is no http address, or holds a user name or password.

    Examples
    --------
    >>> base_url("localhost:8000/v1/")
    'http://localhost:8000'
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        parts.port  # noqa: B018  (refuses a port that is no number up to 65535)
    except ValueError as error:
        raise UsageError(f"url {text!r:.80} is no http address of a server: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"url {parts.hostname or text!r} is no http address of a server")
    if parts.username or parts.password:
        raise UsageError(
            f"url of {parts.hostname} holds a user name or password; "
            f"put the key into the environment variable {API_KEY_VARIABLES[0]}"
        )
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def api_key() -> str:
    """Key for the server, from the environment; never written or printed.

    Returns
    -------
    str
        Value of the first of `API_KEY_VARIABLES` that is set, else empty.
    """
    return next((os.environ[name] for name in API_KEY_VARIABLES if os.environ.get(name)), "")


def redacted(text: str, key: str) -> str:
    """Text without the key, for messages that a server may have put it into.

    Parameters
    ----------
    text : str
        Any message.
    key : str
        The key; empty for none.

    Returns
    -------
    str
        The same text with stars in place of the key.

    Examples
    --------
    >>> redacted("bad key sk-1234", "sk-1234")
    'bad key ***'
    """
    return text.replace(key, "***") if key else text
