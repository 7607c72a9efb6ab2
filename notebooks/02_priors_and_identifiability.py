# %% [markdown]
# # Priors, and what the data could tell
#
# A latency model states what is known before any run: floors from the datasheet, centres from the
# literature. This notebook shows which coefficients the training runs moved, and which still stand
# where the prior put them. A name without data behind it must not look learned.

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np

import tailcast

posterior = tailcast.load_posterior()
tree = posterior.tree()
model = posterior.latency_model
[(c.name, c.floor, c.centre, c.sd) for c in model.coefficients][:4]

# %% [markdown]
# Prior and posterior of the population side by side, above the floor and on a log scale.

# %%
names = [str(n) for n in tree["posterior"]["coefficient"].values]
prior = tree["prior"]["value"].values.reshape(-1, len(names))
drawn = tree["posterior"]["value"].values.reshape(-1, len(names))
floor = np.array([model.coefficient(n).floor for n in names])
fig, axes = plt.subplots(3, 6, figsize=(13, 6))
for k, axis in enumerate(axes.ravel()):
    if k >= len(names):
        axis.axis("off")
        continue
    for values, colour in ((prior, "#999999"), (drawn, "#2459b3")):
        axis.hist(
            np.log10(values[:, k] - floor[k]), bins=25, density=True, alpha=0.55, color=colour
        )
    axis.set_title(names[k], fontsize=8)
    axis.set_yticks([])
    axis.tick_params(labelsize=7)
fig.suptitle("log10 of what lies above the floor: prior grey, posterior blue", fontsize=10)
fig.tight_layout()

# %% [markdown]
# One number a coefficient: posterior over prior standard deviation of the log, at the best known
# level. Above 0.8 counts as not learned, and every prediction that leans on such a name says so.

# %%
contraction = posterior.card["contraction"]
for name, ratio in sorted(contraction.items(), key=lambda item: item[1]):
    print(f"{name:24s} {ratio:5.2f}  {'at its prior' if ratio > 0.8 else ''}")

# %% [markdown]
# Why? Every run of the campaign repeats 100 prompts, so nothing but the controlled sweeps says what
# prefill costs; `finish` and `stream` are a millisecond against seconds; the only mixture of experts
# in training has its own precision, so routing cannot be told from quantisation.
#
# Pairs of coefficients trade against each other: a step's constant part may be layers or scheduler.

# %%
values = np.log(drawn - floor)
correlation = np.corrcoef(values.T)
fig, axis = plt.subplots(figsize=(7.5, 6))
image = axis.imshow(correlation, cmap="RdBu_r", vmin=-1, vmax=1)
axis.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
axis.set_yticks(range(len(names)), names, fontsize=7)
fig.colorbar(image, label="posterior correlation")
fig.tight_layout()

# %% [markdown]
# Predictions use draws of all coefficients together, so what trades off inside a step does not
# widen the answer. It does widen the answer for another accelerator, where the trade goes otherwise.

# %%
az.summary(tree, var_names=["~offset", "scale"], filter_vars="like", round_to=3).head(8)
