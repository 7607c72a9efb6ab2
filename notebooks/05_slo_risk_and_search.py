# %% [markdown]
# # From risk to a decision
#
# An objective is a probability: how likely is it that P99 TTFT exceeds 300 ms? The rate at which
# that chance reaches 5 % is the capacity that may be promised. And of several ways to serve the same
# traffic, the cheapest that keeps the promise wins, if it really does.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from tailcast.posteriors import load_posterior
from tailcast.risk.assessment import assess
from tailcast.risk.fleet import Fleet
from tailcast.risk.trial import Question
from tailcast.slo import parse_objective
from tailcast.study import deployment_from_mapping
from tailcast.workload.mapping import workload_from_mapping

posterior = load_posterior()
deployment = deployment_from_mapping({"model": "llama-3.1-8b", "gpu": "h100-sxm"}, "notebook")
workload = workload_from_mapping(
    {"rate": 10.0, "input_tokens": 512, "output_tokens": 256, "n_requests": 500}, "notebook"
)
found = assess(
    posterior,
    Fleet(deployment=deployment),
    workload,
    Question(objectives=(parse_objective("ttft.p99=300ms"),), groups=workload.group_names),
    n_draw=150,
    curves=("rate",),
)
curve = found.curves["rate"]
order = np.argsort(curve.at)

# %%
fig, axis = plt.subplots(figsize=(7, 3.2))
axis.plot(np.array(curve.at)[order], np.array(curve.p_miss)[order], "o-", color="#2459b3")
axis.axhline(0.05, color="#b3261e", linestyle="--", label="accepted 5 %")
axis.set(xlabel="rate, requests/s", ylabel="P(P99 TTFT > 300 ms)", ylim=(-0.03, 1.03))
axis.legend(frameon=False)
fig.tight_layout()

# %% [markdown]
# The curve is not a step: between "certainly fine" and "certainly not" lies a band of rates where
# only a measurement would tell. A point forecast draws that band as a line.
#
# Now a search: sixteen candidates at 24 requests a second, with prices. Candidates face the same
# posterior draws and the same arrivals, cheap rungs come first, and the winner is confirmed on fresh
# draws, so that it did not win by luck.

# %%
STUDY = """
[deployment]
model = "llama-3.1-8b"
gpu = "h100-sxm"
[workload]
rate = 24
n_requests = 400
input_tokens = 512
output_tokens = 256
[slo]
"ttft.p99" = "300ms"
risk = 0.05
[search]
draws = 60
[search.space]
gpu = ["h100-sxm", "h200-sxm"]
tensor_parallel = [1, 2]
replicas = [1, 2]
max_num_batched_tokens = [1024, 4096]
[search.prices]
h100-sxm = 2.5
h200-sxm = 3.2
"""
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "study.toml"
    path.write_text(STUDY)
    from tailcast.cli.main import main

    try:
        main(["-q", "search", str(path)])
    except SystemExit as done:
        print("exit code", done.code)

# %% [markdown]
# Exit code 0: something holds. Had nothing held, the answer would have been 1 and the largest rate
# that the best candidate can sustain, never a latency from beyond the stability boundary.
