# %% [markdown]
# # Two different P99s
#
# "The P99" may mean the P99 of the process, were it observed for ever, or the P99 that the next run
# of so many requests will show. They have different spreads, and an objective may be judged on
# either. This notebook takes both apart, with their sources.

# %%
import matplotlib.pyplot as plt
import numpy as np

from tailcast.posteriors import load_posterior
from tailcast.prediction import predictive
from tailcast.study import deployment_from_mapping
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise

posterior = load_posterior()
deployment = deployment_from_mapping({"model": "qwen3-14b", "gpu": "h100-sxm"}, "notebook")


def p99_by_length(n_requests, rate=9.0):
    """P99 TTFT of runs of so many requests, one a posterior draw."""
    workload = workload_from_mapping(
        {"rate": rate, "input_tokens": 600, "output_tokens": 200, "n_requests": n_requests},
        "notebook",
    )
    found = predictive(posterior, deployment, lambda seed: materialise(workload, seed), n_draw=150)
    return found.draws("ttft", "p99") * 1e3


# %%
lengths = (100, 400, 1600, 6400)
draws = {n: p99_by_length(n) for n in lengths}
fig, axis = plt.subplots(figsize=(7, 3.2))
for k, n in enumerate(lengths):
    low, middle, high = np.quantile(draws[n], [0.055, 0.5, 0.945])
    axis.plot([low, high], [k, k], color="#2459b3", linewidth=6, alpha=0.35)
    axis.plot(middle, k, "o", color="#2459b3")
    print(f"{n:5d} requests: median {middle:5.1f} ms, 89 % interval {low:5.1f} .. {high:5.1f} ms")
axis.set_yticks(range(len(lengths)), [f"{n} requests" for n in lengths])
axis.set(xlabel="P99 TTFT, ms", title="The P99 that the next run shows")
fig.tight_layout()

# %% [markdown]
# A short run scatters because few requests make its tail; a long one scatters almost only because the
# coefficients are uncertain. More requests do not buy certainty beyond that: traces do.
#
# Where does the spread come from? Draws crossed with workload seeds tell coefficients (and the
# discrepancy of the law) from the luck of which requests arrive.

# %%
from tailcast.risk.assessment import assess
from tailcast.risk.fleet import Fleet
from tailcast.risk.trial import Question
from tailcast.slo import parse_objective

workload = workload_from_mapping(
    {"rate": 9.0, "input_tokens": 600, "output_tokens": 200, "n_requests": 400}, "notebook"
)
found = assess(
    posterior,
    Fleet(deployment=deployment),
    workload,
    Question(objectives=(parse_objective("ttft.p99=120ms"),), groups=workload.group_names),
    n_draw=200,
)
split = found.splits()[str(found.question.objectives[0])]
for name in ("coefficients", "discrepancy", "workload", "finite_run"):
    print(f"{name:14s} {100 * getattr(split, name) / split.total:5.1f} % of the log variance")

# %%
for label, rows in (("next 400 requests", found.window), ("process", found.process)):
    print(f"P(miss) of the {label}: {rows[-1].p_miss:.3f} +- {rows[-1].mcse:.3f}")
