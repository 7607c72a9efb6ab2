# %% [markdown]
# # When the model is wrong
#
# Three ways of being wrong, and what keeps each of them honest: a coefficient that beats the
# hardware, a workload that was not the one executed, and a law that is simply not the whole truth.

# %%
import matplotlib.pyplot as plt
import numpy as np

from tailcast.coefficients import Coefficients
from tailcast.errors import InputError
from tailcast.latency_model import load_latency_model
from tailcast.posteriors import load_posterior
from tailcast.prediction import predictive
from tailcast.study import deployment_from_mapping
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise

posterior = load_posterior()
model = posterior.latency_model

# %% [markdown]
# ## Faster than the datasheet
#
# BLIS ships a prefill coefficient of 0.152: prompts would be computed 6.6 times faster than the
# accelerator's peak. `models/blis-trained-physics` holds it as data. Under `physics` such a value
# cannot be drawn, and handing one in is refused.

# %%
blis = {c.name: c.centre for c in load_latency_model("blis-trained-physics").coefficients}
print({name: round(value, 4) for name, value in blis.items() if "prefill" in name or "1" in name})
values = {c.name: np.array([max(c.centre, c.floor)]) for c in model.coefficients}
values["prefill_compute"] = np.array([0.152])
try:
    Coefficients(latency_model=model, values=values, speed=np.ones(1))
except InputError as error:
    print("refused:", error)

# %% [markdown]
# ## The wrong workload
#
# How can a fit come out at 0.152? The public campaign repeated 100 prompts, and the server had prefix
# caching on, so almost nothing was prefilled. A simulator that feeds the same number of *uncached*
# tokens can only agree with the measurements if prefill is nearly free.

# %%
deployment = deployment_from_mapping(
    {"model": "llama-2-70b", "gpu": "h100-sxm", "tensor_parallel": 4}, "notebook"
)


def mean_ttft(repeated):
    """Mean TTFT with repeated or unique prompts, ms, one a draw."""
    asked = {"rate": 8.0, "input_tokens": 550, "output_tokens": 200, "n_requests": 800}
    if repeated:
        asked["repeat"] = {"distinct": 100}
    workload = workload_from_mapping(asked, "notebook")
    found = predictive(posterior, deployment, lambda s: materialise(workload, s), n_draw=80)
    return 1e3 * found.draws("ttft", "mean")


repeated, unique = mean_ttft(True), mean_ttft(False)
fig, axis = plt.subplots(figsize=(7, 3))
bins = np.linspace(0, 1.1 * np.quantile(unique, 0.99), 45)
axis.hist(repeated, bins, alpha=0.7, label="100 prompts, repeated (as executed)", color="#2459b3")
axis.hist(unique, bins, alpha=0.7, label="every prompt new", color="#c46a00")
axis.set(xlabel="mean TTFT, ms", ylabel="draws")
axis.legend(frameon=False)
fig.tight_layout()
print(f"repeated {np.median(repeated):.0f} ms, unique {np.median(unique):.0f} ms")

# %% [markdown]
# The same traffic volume, a factor in TTFT: describing the workload right matters more than any
# coefficient, and a mistake in it must not be absorbed by one.
#
# ## The law is not the whole truth
#
# The step law misses things: nodes differ, kernels switch. A discrepancy with a learned scale says
# how much. Without it the intervals are narrower, and on real runs they miss too often.

# %%
asked = {"rate": 8.0, "input_tokens": 550, "output_tokens": 200, "n_requests": 800}
workload = workload_from_mapping(asked, "notebook")
widths = {}
for label, kept in (("with discrepancy", True), ("law alone", False)):
    found = predictive(
        posterior,
        deployment,
        lambda s: materialise(workload, s),
        n_draw=150,
        with_discrepancy=kept,
    )
    low, high = np.quantile(found.draws("e2e", "mean"), [0.05, 0.95])
    widths[label] = high / low - 1
    print(f"{label:18s} mean E2E {low:.3f} .. {high:.3f} s, width {100 * widths[label]:.0f} %")

# %%
scales = {name: draws for name, draws in posterior.population.scale.items()}
fig, axis = plt.subplots(figsize=(7, 3))
for k, (name, draws) in enumerate(scales.items()):
    low, middle, high = np.quantile(100 * draws, [0.055, 0.5, 0.945])
    axis.plot([low, high], [k, k], linewidth=6, alpha=0.4, color="#2459b3")
    axis.plot(middle, k, "o", color="#2459b3")
axis.set_yticks(range(len(scales)), [name.replace("_", " ") for name in scales])
axis.set(xlabel="scale of the discrepancy, % of the step time or of TTFT", xscale="log")
fig.tight_layout()

# %% [markdown]
# A narrow interval is easy to make. `tailcast evaluate` shows whether it holds.
