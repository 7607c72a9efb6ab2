# %% [markdown]
# # A first posterior
#
# Will Llama-3.1-8B on one H100 hold a P99 time to first token of 100 ms at 12 requests a second?
# Nobody has run it for us. The shipped posterior has seen other models on the same accelerator; we
# ask it, and look at how sure it is and why.

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np

import tailcast

posterior = tailcast.load_posterior()
tree = posterior.tree()
tree["posterior"].to_dataset().sizes

# %% [markdown]
# The posterior is a DataTree, so ArviZ reads it as it is. `value` holds the coefficients of the
# population: dimensionless ones multiply a time at the datasheet's peak, so none is below 1.

# %%
roofline = ["prefill_compute", "decode_kv_read", "weight_read", "tp_allreduce"]
az.summary(tree, var_names=["value"], coords={"coefficient": roofline}, round_to=3)

# %% [markdown]
# `weight_read` near 1.2 says: reading weights takes about 20 % longer than the datasheet's bandwidth
# would. `prefill_compute` near 1.45 is a model FLOP utilisation of about 0.7.
#
# Now the question itself. Every draw of the coefficients runs the engine once, with its own arrivals.

# %%
answer = tailcast.predict(
    "meta-llama/Llama-3.1-8B-Instruct",
    "h100-sxm",
    rate=12,
    input_tokens=512,
    output_tokens=256,
    n_requests=600,
    slo=["ttft.p99=100ms"],
    draws=200,
)
answer["slo"].attrs["verdict"], answer["slo"]["p_miss"].values

# %%
p99 = answer["predictions"]["ttft"].sel(group="all", stat="p99").values.ravel() * 1e3
low, middle, high = np.quantile(p99, [0.055, 0.5, 0.945])
fig, axis = plt.subplots(figsize=(7, 3))
axis.hist(p99, bins=30, color="#2459b3", alpha=0.7)
axis.axvline(100, color="#b3261e", linestyle="--", label="objective")
axis.axvspan(low, high, color="#2459b3", alpha=0.12, label="89 % interval")
axis.set(xlabel="P99 TTFT of the next 600 requests, ms", ylabel="draws")
axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
fig.tight_layout()
print(f"P99 TTFT {middle:.0f} ms, 89 % interval {low:.0f} to {high:.0f} ms")

# %% [markdown]
# The answer is a distribution, not a number. A point forecast at the median would be silent about
# the draws on the right; the objective is judged on all of them.
