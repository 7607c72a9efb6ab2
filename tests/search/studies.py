"""Small studies on disk."""

from pathlib import Path
from typing import Any

from risk.cases import prior_posterior
from tailcast.search.executors import Executor, Threads
from tailcast.search.search import Search
from tailcast.search.settings import SearchStudy, load_search_study
from tailcast.search.space import build_space

STUDY = """
[deployment]
model = "llama-3.1-8b"
gpu = "h100-sxm"

[workload]
rate = {rate}
n_requests = 100
arrivals = "poisson"
input_tokens = {{ law = "lognormal", median = 300, sigma = 0.5 }}
output_tokens = {{ law = "lognormal", median = 50, sigma = 0.5 }}

[slo]
"{objective}" = "{target}"
risk = 0.2
{slo}

[search]
draws = 24
confirm = 40
{search}

[search.space]
{space}
"""


def write_study(folder: Path, **changes: Any) -> Path:
    """A study file; `changes` fill its gaps."""
    gaps = {
        "rate": 20,
        "objective": "ttft.p99",
        "target": "80ms",
        "slo": "",
        "search": "",
        "space": "tensor_parallel = [1, 2]\nmax_num_seqs = [32, 64]",
        **changes,
    }
    path = folder / "study.toml"
    path.write_text(STUDY.format(**gaps))
    return path


def study_of(folder: Path, **changes: Any) -> SearchStudy:
    """The same, read."""
    return load_search_study(write_study(folder, **changes))


def search_of(study: SearchStudy, executor: Executor | None = None, **options: Any) -> Search:
    """A search that predicts by the prior."""
    return Search(
        study=study,
        space=build_space(study),
        posteriors={study.posterior: prior_posterior()},
        executor=executor or Threads(2),
        **options,
    )
