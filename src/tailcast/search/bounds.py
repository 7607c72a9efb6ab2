"""Blocks that a candidate misses for certain, found without a simulation."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailcast.latency_model import NEAR_SATURATION
from tailcast.request import RequestTable
from tailcast.risk.fleet import Fleet
from tailcast.risk.stability import (
    Shape,
    lone_gap,
    lone_ttft,
    new_tokens,
    offered_load,
    order_statistic,
    request_shape,
)
from tailcast.risk.trial import law_rows
from tailcast.search.executors import RACE, Context
from tailcast.slo import Objective, stat_quantile

Array = NDArray[np.float64]


@dataclass(kw_only=True)
class Bounds:
    """Bounds from the stability boundary and from lone requests, for the blocks of a race.

    Parameters
    ----------
    context : Context
        Of the search.
    """

    context: Context
    _shapes: dict[tuple[str, int, bool], list[Shape]] = field(default_factory=dict, init=False)
    _tokens: dict[tuple[str, bool, int, int], Array] = field(default_factory=dict, init=False)

    def load(self, fleet: Fleet, posterior: str, n_block: int) -> Array:
        """Least load of a fleet: with a cache that never forgets.

        Parameters
        ----------
        fleet : Fleet
            Candidate.
        posterior : str
            What predicts it.
        n_block : int
            Leading blocks.

        Returns
        -------
        ndarray, shape (n_block,)
            1 and more is beyond the stability boundary whatever the scheduler does.
        """
        caching = fleet.deployment.engine.prefix_caching
        blocks = self.context.blocks(posterior, RACE)
        key = (posterior, fleet.n_rank, caching)
        shapes = self._shapes.setdefault(key, [])
        for block in range(len(shapes), n_block):
            dealt = self.context.tables.dealt(int(blocks.workload_seeds[block, 0]), fleet.n_rank)
            shapes.append(request_shape(dealt[0].table, prefix_caching=caching))
        columns = {
            name: np.array([getattr(shape, name) for shape in shapes[:n_block]])
            for name in Shape.__dataclass_fields__
        }
        law = law_rows(blocks.draws(fleet.deployment).law, blocks.draw_of[:n_block])
        return offered_load(law, fleet.deployment, Shape(**columns))

    def missed(self, fleet: Fleet, posterior: str, n_block: int) -> NDArray[np.bool_]:
        """Blocks that must miss: saturated, or a lone request is too slow already.

        Parameters
        ----------
        fleet : Fleet
            Candidate.
        posterior : str
            What predicts it.
        n_block : int
            Leading blocks.

        Returns
        -------
        ndarray of bool, shape (n_block,)
            False means nothing.
        """
        load = self.load(fleet, posterior, n_block)
        sure: NDArray[np.bool_] = load >= 1.0
        blocks = self.context.blocks(posterior, RACE)
        draws = blocks.draws(fleet.deployment)
        law = law_rows(draws.law, blocks.draw_of[:n_block])
        rows = blocks.draw_of[:n_block]
        near, late = load >= NEAR_SATURATION, draws.saturation[rows]
        factor = draws.ttft[rows] * np.where(near, late, np.minimum(late, 1.0))
        for k, objective in enumerate(self.context.question.objectives):
            if objective.metric not in {"ttft", "tpot"} or objective.is_goodput:
                continue
            tokens = self._least_tokens(fleet, posterior, k, n_block)
            if objective.metric == "ttft":
                mean = objective.stat == "mean"
                least = lone_ttft(law, fleet.deployment, tokens, is_mean=mean) * factor
            else:
                least = lone_gap(law, tokens)
            sure |= least > objective.target
        return sure

    def _least_tokens(self, fleet: Fleet, posterior: str, index: int, n_block: int) -> Array:
        """Prompt tokens to compute (ttft) or held in the cache (tpot) at the objective's stat."""
        caching = fleet.deployment.engine.prefix_caching
        longest = fleet.deployment.max_model_len
        key = (posterior, caching, longest, index)
        known = self._tokens.get(key, np.zeros(0))
        if len(known) < n_block:
            question, tables = self.context.question, self.context.tables
            objective = question.objectives[index]
            seeds = self.context.blocks(posterior, RACE).workload_seeds[len(known) : n_block]
            members = question.members_of(objective.group) if objective.group else None
            fresh = [
                min(_tokens_at(tables(int(s)), objective, members, caching, longest) for s in runs)
                for runs in seeds
            ]
            known = self._tokens[key] = np.concatenate([known, fresh])
        return known[:n_block]


def _tokens_at(
    table: RequestTable,
    objective: Objective,
    members: tuple[int, ...] | None,
    caching: bool,
    longest: int,
) -> float:
    """Tokens at the objective's statistic over the requests that are not rejected."""
    if objective.metric == "ttft":
        tokens = new_tokens(table, prefix_caching=caching)
        keep = table.input_tokens + table.output_tokens <= longest
    else:
        tokens = table.input_tokens.astype(np.float64)
        keep = (table.output_tokens > 1) & (table.input_tokens + table.output_tokens <= longest)
    if members is not None:
        keep &= np.isin(table.group, members)
    tokens = tokens[keep]
    if not len(tokens):
        return 0.0
    probability = stat_quantile(objective.stat)
    return float(tokens.mean()) if probability is None else order_statistic(tokens, probability)
