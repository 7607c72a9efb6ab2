"""Duration of an engine step as a function of what the batch holds, for many draws at once."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError, near_name

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    r"""Step law and request overheads; one row a draw, all in seconds.

    .. math:: T = c + a T_p + b A + r n_P + d n_D + s S + \mathrm{table}[T_p + n_D]

    with the prefill tokens :math:`T_p` and their attention pairs :math:`A = \sum t (p + t/2)` over
    prefill chunks of t tokens after p computed ones, the number of chunks :math:`n_P`, the number
    of decodes :math:`n_D` and the sum :math:`S` of their contexts.

    Parameters
    ----------
    per_step : ndarray of float64, shape (n_draw,)
        Seconds per step.
    per_prefill_token, per_prefill_pair, per_prefill_request : ndarray, shape (n_draw,)
        Seconds per prefill token, per (query, key) pair of prefill attention, per prefill chunk.
    per_decode, per_context_token : ndarray, shape (n_draw,)
        Seconds per decoding request, per token of context of decoding requests.
    ingest, finish, stream : ndarray, shape (n_draw,)
        Seconds per request before it is queued, per request after its last token, per output token
        delivered; they never enter the step clock.
    schedule_lag : ndarray, shape (n_draw,)
        Steps between fixing a batch and starting it, from 0 to 2.
    token_table : ndarray, shape (n_draw, n_table)
        Seconds added by the number of new tokens in the step, which is clipped to ``n_table - 1``.
    """

    per_step: Column
    per_prefill_token: Column
    per_prefill_pair: Column
    per_prefill_request: Column
    per_decode: Column
    per_context_token: Column
    ingest: Column
    finish: Column
    stream: Column
    schedule_lag: Column
    token_table: Column

    def __post_init__(self) -> None:
        shape = np.shape(self.per_step)
        if len(shape) != 1:
            raise UsageError(f"step law: per_step has shape {shape}, expected (n_draw,)")
        for field in fields(self):
            column = np.ascontiguousarray(getattr(self, field.name), dtype=np.float64)
            object.__setattr__(self, field.name, column)
            table = field.name == "token_table"
            if column.shape[: 1 if column.ndim else 0] != shape or column.ndim != 1 + table:
                expected = f"({shape[0]}, n_table)" if table else f"({shape[0]},)"
                raise UsageError(
                    f"step law: {field.name} has shape {column.shape}, expected {expected}"
                )
            bad = ~(np.isfinite(column) & (column >= 0))
            if bad.any():
                where = tuple(int(k) for k in np.argwhere(bad)[0])
                raise UsageError(
                    f"step law: {field.name} must be finite and not negative, "
                    f"got {column[where].item()!r} in draw {where[0]}"
                )
        if self.token_table.shape[1] < 1:
            raise UsageError("step law: token_table needs at least one column")
        if (self.schedule_lag > 2).any():
            raise UsageError(
                f"step law: schedule_lag must be at most 2, got {self.schedule_lag.max().item()!r}"
            )

    @property
    def n_draw(self) -> int:
        """Number of draws."""
        return len(self.per_step)

    def draw(self, index: int) -> "StepLaw":
        """One draw of the law.

        Parameters
        ----------
        index : int
            Row, negative values count from the end.

        Returns
        -------
        StepLaw
            The same law with ``n_draw == 1``.
        """
        row = range(self.n_draw)[index]
        return StepLaw(**{f.name: getattr(self, f.name)[row : row + 1] for f in fields(self)})

    @classmethod
    def single(
        cls, *, token_table: NDArray[np.float64] | None = None, **seconds: float
    ) -> "StepLaw":
        """Law of one draw; what is not given is zero.

        Parameters
        ----------
        token_table : ndarray, shape (n_table,), optional
            Seconds added by the number of new tokens in a step.
        **seconds : float
            Any other field of `StepLaw`.

        Returns
        -------
        StepLaw
            With ``n_draw == 1``.

        Raises
        ------
        UsageError
            If a name is unknown or a value is not finite and non-negative.

        Examples
        --------
        >>> StepLaw.single(per_step=0.006, per_context_token=4e-8).n_draw
        1
        """
        names = [f.name for f in fields(cls) if f.name != "token_table"]
        for name in seconds:
            if name not in names:
                raise UsageError(f"step law: no term {name!r}; {near_name(name, names)}")
        table = np.zeros(1) if token_table is None else np.asarray(token_table, dtype=np.float64)
        columns = {name: np.array([seconds.get(name, 0.0)]) for name in names}
        return cls(token_table=np.atleast_2d(table), **columns)

    def duration(
        self,
        prefill_tokens: float,
        prefill_pairs: float,
        prefill_requests: float,
        decodes: float,
        context: float,
    ) -> Column:
        """Seconds that a step with this batch takes.

        Parameters
        ----------
        prefill_tokens, prefill_pairs, prefill_requests : float
            Prefill work of the batch: tokens, (query, key) pairs, chunks.
        decodes, context : float
            Decoding requests and the sum of their contexts in tokens.

        Returns
        -------
        ndarray, shape (n_draw,)
            Step duration in seconds.
        """
        new_tokens = int(prefill_tokens + decodes)
        table = self.token_table[:, min(new_tokens, self.token_table.shape[1] - 1)]
        return (
            self.per_step
            + self.per_prefill_token * prefill_tokens
            + self.per_prefill_pair * prefill_pairs
            + self.per_prefill_request * prefill_requests
            + self.per_decode * decodes
            + self.per_context_token * context
            + table
        )
