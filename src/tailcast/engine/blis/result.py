"""What a BLIS run leaves behind, and BLIS's reports of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.columns import Status
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.metrics import latency_entries, percentile_ms, pooled_latency_entries
from tailcast.engine.blis.requests import BlisRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRuns:
    """Runs of consecutive steps in which a request decoded, each of shape (n_run,).

    Parameters
    ----------
    row : ndarray of int64
        Request.
    first : ndarray of int64
        First step of the run.
    length : ndarray of int64
        Steps; 0 for a run that a preemption threw away.
    """

    row: NDArray[np.int64]
    first: NDArray[np.int64]
    length: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisResult:
    """One entry a request, in the order given; -1 where it never came to that.

    Parameters
    ----------
    requests : BlisRequests
        What arrived.
    model : BlisLatencyModel
        What timed it.
    ended_us : int
        Clock at the last executed event.
    counters : mapping of str to int
        Steps, preemptions, tokens, KV blocks, and how requests ended.
    step_duration_us : ndarray of int64, shape (n_step,)
        Duration of every executed step.
    decode_runs : DecodeRuns
        Who decoded when.
    status : ndarray of int64, shape (n_request,)
        Values of `Status`.
    ttft_us, e2e_us : ndarray of int64, shape (n_request,)
        From arrival; TTFT is kept for requests that timed out later, as in BLIS.
    itl_sum_us, n_itl : ndarray of int64, shape (n_request,)
        Sum and number of token gaps, those before a preemption left out.
    scheduled_us, finished_us : ndarray of int64, shape (n_request,)
        Last admission and end.
    preemptions, cached_tokens : ndarray of int64, shape (n_request,)
        Preemptions, and prompt tokens found in the cache at the last admission.
    length_capped : ndarray of bool, shape (n_request,)
        Ended at the sequence limit.
    """

    requests: BlisRequests
    model: BlisLatencyModel
    ended_us: int
    counters: Mapping[str, int]
    step_duration_us: NDArray[np.int64]
    decode_runs: DecodeRuns
    status: NDArray[np.int64]
    ttft_us: NDArray[np.int64]
    e2e_us: NDArray[np.int64]
    itl_sum_us: NDArray[np.int64]
    n_itl: NDArray[np.int64]
    scheduled_us: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    length_capped: NDArray[np.bool_]

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Which requests completed, shape (n_request,)."""
        return np.asarray(self.status == Status.COMPLETED, dtype=np.bool_)

    @property
    def itl_mean_us(self) -> NDArray[np.float64]:
        """Mean token gap of each request in microseconds, shape (n_request,); 0 without gaps.

        A length-capped request is divided by one gap less than it has, as in BLIS.
        """
        gaps = np.where(self.length_capped, self.n_itl - 1, self.requests.output_tokens - 1)
        return self.itl_sum_us / np.maximum(gaps, 1)

    def itl_us(self, row: int) -> NDArray[np.int64]:
        """Token gaps of one request.

        Parameters
        ----------
        row : int
            Request.

        Returns
        -------
        ndarray of int64, shape (n_gap,)
            Microseconds, in order.
        """
        runs = self.decode_runs
        gaps = [
            self.step_duration_us[first : first + length] + self.model.stream_us
            for first, length in zip(
                runs.first[runs.row == row], runs.length[runs.row == row], strict=True
            )
        ]
        return np.concatenate(gaps) if gaps else np.zeros(0, dtype=np.int64)

    def pooled_itl_us(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Token gaps of all completed requests.

        Returns
        -------
        values : ndarray of int64, shape (n_value,)
            Different gaps in microseconds, ascending.
        counts : ndarray of int64, shape (n_value,)
            How often each occurs.
        """
        runs = self.decode_runs
        kept = self.completed[runs.row]
        n = len(self.step_duration_us)
        first, length = runs.first[kept], runs.length[kept]
        change = np.bincount(first, minlength=n + 1) - np.bincount(first + length, minlength=n + 1)
        decoding = np.cumsum(change)[:n]
        values, which = np.unique(
            self.step_duration_us[decoding > 0] + self.model.stream_us, return_inverse=True
        )
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, which, decoding[decoding > 0])
        return values, counts

    def metrics(self, *, with_requests: bool = False) -> dict[str, Any]:
        """Aggregates under the keys of BLIS's ``MetricsOutput``.

        TTFT covers every request that reached a first token, E2E completed ones only, and token
        gaps are pooled over completed requests: BLIS's sets, not comparable with each other when
        requests time out.

        Parameters
        ----------
        with_requests : bool
            Whether to add one record a request.

        Returns
        -------
        dict of str to object
            Latencies in milliseconds, rates per second; latencies are 0 if nothing completed.
        """
        count = self.counters
        duration = self.ended_us / 1e6
        done = count["completed"]
        report: dict[str, Any] = {
            "instance_id": "cluster",
            "completed_requests": done,
            "still_queued": count["still_queued"],
            "still_running": count["still_running"],
            "injected_requests": done
            + count["still_queued"]
            + count["still_running"]
            + count["dropped_unservable"]
            + count["timed_out"],
            "total_input_tokens": count["input_tokens"],
            "total_output_tokens": count["output_tokens"],
            "vllm_estimated_duration_s": duration,
            "responses_per_sec": done / duration if done and duration > 0 else 0.0,
            "tokens_per_sec": count["output_tokens"] / duration if done and duration > 0 else 0.0,
        }
        report.update(self._latencies(done > 0))
        looked_up = count["cache_hits"] + count["cache_misses"]
        report.update(
            kv_allocation_failures=count["kv_allocation_failures"],
            preemption_count=count["preemptions"],
            cache_hit_rate=count["cache_hits"] / looked_up if looked_up else 0.0,
            dropped_unservable=count["dropped_unservable"],
            length_capped_requests=count["length_capped"],
            timed_out_requests=count["timed_out"],
        )
        if with_requests:
            report["requests"] = self._request_records()
        return report

    def sim_results(self) -> list[dict[str, Any]]:
        """Completed requests as ``blis replay --results-path`` lists them.

        Returns
        -------
        list of dict
            Microseconds; names without a number are left out and a zero mean gap too, as in BLIS.
        """
        records = []
        for row in np.flatnonzero(self.completed).tolist():
            number = self.requests.request_id[row].removeprefix("request_")
            if not number.isdigit():
                continue
            record: dict[str, Any] = {
                "request_id": int(number),
                "ttft_us": float(self.ttft_us[row]),
                "e2e_us": float(self.e2e_us[row]),
                "input_tokens": int(self.requests.input_tokens[row]),
                "output_tokens": int(self.requests.output_tokens[row]),
            }
            if self.itl_mean_us[row] != 0:
                record["itl_mean_us"] = float(self.itl_mean_us[row])
            records.append(record)
        return sorted(records, key=lambda record: int(record["request_id"]))

    def _latencies(self, any_done: bool) -> dict[str, float]:
        seen = self.ttft_us >= 0 if any_done else np.zeros(len(self.requests), dtype=np.bool_)
        admitted = self.scheduled_us >= 0
        delay = (self.scheduled_us - self.requests.arrival_us)[admitted & any_done]
        return {
            **latency_entries("e2e", self.e2e_us[self.completed]),
            **latency_entries("ttft", self.ttft_us[seen]),
            **pooled_latency_entries("itl", *self.pooled_itl_us()),
            "scheduling_delay_p99_ms": percentile_ms(np.sort(delay), 99),
        }

    def _request_records(self) -> list[dict[str, Any]]:
        rows = np.flatnonzero(self.status != Status.DROPPED)
        arrival_us = self.requests.arrival_us
        records = []
        for row in rows[np.argsort(arrival_us[rows], kind="stable")].tolist():
            done = bool(self.completed[row])
            admitted = self.scheduled_us[row] >= 0
            records.append(
                {
                    "requestID": self.requests.request_id[row],
                    "arrived_at": arrival_us[row] / 1e6,
                    "num_prefill_tokens": int(self.requests.input_tokens[row]),
                    "num_decode_tokens": int(self.requests.output_tokens[row]),
                    "ttft_ms": max(0, int(self.ttft_us[row])) / 1e3,
                    "itl_ms": float(self.itl_mean_us[row]) / 1e3 if done else 0.0,
                    "e2e_ms": max(0, int(self.e2e_us[row])) / 1e3,
                    "scheduling_delay_ms": int(self.scheduled_us[row] - arrival_us[row]) / 1e3
                    if admitted
                    else 0.0,
                    "length_capped": bool(self.length_capped[row]),
                }
            )
        return records
