"""Random small runs under pressure: few blocks, few slots, shared prompts, deadlines."""

import numpy as np
from hypothesis import strategies as st

from tailcast.engine.blis.requests import BlisRequests, blis_requests
from tailcast.engine.blis.settings import PREEMPTION_POLICIES, SCHEDULERS, BlisSettings


@st.composite
def blis_settings(draw: st.DrawFn) -> BlisSettings:
    """Tight limits; the horizon bounds runs that would never end."""
    block_size = draw(st.sampled_from([1, 4, 16]))
    return BlisSettings(
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=draw(st.integers(1, 80)),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 5, 20])),
        max_model_len=draw(st.sampled_from([0, 40, 90])),
        block_size=block_size,
        kv_blocks=draw(st.integers(2, 160 // block_size)),
        scheduler=draw(st.sampled_from(SCHEDULERS)),
        preemption_policy=draw(st.sampled_from(PREEMPTION_POLICIES)),
        horizon_us=draw(st.sampled_from([60_000, 400_000, 10_000_000])),
    )


@st.composite
def blis_request_tables(draw: st.DrawFn) -> BlisRequests:
    """Up to 14 requests in any order, some with equal prompts, some without output."""
    n = draw(st.integers(0, 14))

    def column(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=n, max_size=n))

    arrival_us = np.array(column(st.integers(0, 400_000)), dtype=np.int64)
    input_tokens = np.array(column(st.integers(1, 64)), dtype=np.int64)
    output_tokens = np.array(column(st.integers(0, 40)), dtype=np.int64)
    # A content stream implies its prefix: the stream's number decides the group.
    content = np.array(column(st.sampled_from([-1, -1, 0, 1, 2])), dtype=np.int64)
    prefix_group = np.where(content >= 0, content % 2, column(st.sampled_from([-1, 0, 1])))
    shared = np.where(content >= 0, 20, column(st.integers(0, 40)))
    patience = np.array(column(st.sampled_from([0, 0, 10_000, 90_000, 400_000])), dtype=np.int64)
    asked = column(st.sampled_from([1, 1, 0, -1]))
    return blis_requests(
        arrival_us,
        input_tokens,
        output_tokens,
        prefix_group=prefix_group,
        prefix_length=np.where(prefix_group >= 0, np.minimum(shared, input_tokens), 0),
        content_stream=content,
        session_output=content == 2,
        deadline_us=np.where(patience > 0, arrival_us + patience, 0),
        priority=column(st.integers(0, 2)),
        max_output_tokens=np.array(asked, dtype=np.int64) * output_tokens,
    )
