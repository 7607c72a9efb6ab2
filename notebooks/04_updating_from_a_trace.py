# %% [markdown]
# # Every trace makes it surer
#
# A deployment that the posterior has never seen is predicted with a wide interval. Then one short
# run is observed. The ledger of evidence grows by that run, everything is fitted again, and the
# interval of the same question shrinks. The "real server" here is the engine with coefficients of
# our own that the posterior does not know, so that we can look at the truth afterwards.

# %%
import matplotlib.pyplot as plt
import numpy as np

from tailcast.coefficients import step_law
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.run import simulate
from tailcast.inference.evidence import Output
from tailcast.inference.forward import RunInput
from tailcast.inference.nuts import Sampler
from tailcast.inference.population import deployment_draws, population_rows
from tailcast.inference.tree import population_of
from tailcast.inference.update import update
from tailcast.posteriors import load_posterior
from tailcast.study import deployment_from_mapping
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise

posterior = load_posterior()
deployment = deployment_from_mapping(
    {"model": "qwen3-32b", "gpu": "h100-sxm", "tensor_parallel": 2}, "notebook"
)


def workload(rate, n):
    """Poisson requests of log-normal lengths."""
    lengths = {"law": "lognormal", "median": 400, "sigma": 0.5}
    asked = {"rate": rate, "input_tokens": lengths, "output_tokens": 180, "n_requests": n}
    return workload_from_mapping(asked, "notebook")


# %% [markdown]
# The truth: one draw from the posterior's own predictive distribution of a new deployment, from its
# slow side.

# %%
every = deployment_draws(posterior.population, deployment, seed=77)
slow = int(np.argsort(every.coefficients.speed)[int(0.9 * every.coefficients.n_draw)])
truth = step_law(every.coefficients, deployment).draw(slow)
table = materialise(workload(4.0, 500), 5)
seen = simulate(table, deployment_limits(deployment), truth)
stat = {m: seen.stat[0, -1, k] for k, m in enumerate(seen.metrics)}
print(f"observed: mean TTFT {1e3 * stat['ttft'][0]:.1f} ms, mean E2E {stat['e2e'][0]:.3f} s")

# %%
places = {"mean": 0, "p50": 1, "p90": 2, "p99": 4}
outputs = tuple(
    Output(
        stage=0,
        metric=metric,
        stat=name,
        log_observed=float(np.log(stat[metric][place])),
        finish=float(metric == "e2e"),
        stream=180.0 if metric == "e2e" else 1.0,
    )
    for metric in ("ttft", "e2e")
    for name, place in places.items()
)
trace = RunInput(
    name="observed trace",
    deployment=deployment,
    requests=lambda _: table,
    outputs=outputs,
    content="notebook 04",
    n_seed=1,
)
found = update(
    posterior.latency_model,
    posterior.tree(),
    posterior.population,
    posterior.evidence(),
    [trace],
    seed=3,
    sampler=Sampler(draws=300, tune=150, chains=2),
)
after = population_of(found.tree, posterior.latency_model)
print(f"r-hat {found.diagnostics.rhat:.3f}, {found.diagnostics.divergences} divergences")

# %% [markdown]
# The question that matters is another load: 9 requests a second, where nobody has measured.

# %%


def answers(population, n=150):
    """Mean TPOT and P99 TTFT of 800 requests at 9 requests a second, ms, one a draw."""
    rows = np.linspace(0, population.n_draw - 1, n).round().astype(int)
    own = deployment_draws(population_rows(population, rows), deployment, seed=1)
    law = step_law(own.coefficients, deployment)
    tables = [materialise(workload(9.0, 800), 100 + k) for k in range(n)]
    result = simulate(tables[0], deployment_limits(deployment), law, draw_requests=tables)
    tpot = result.stat[:, -1, result.metrics.index("tpot"), 0]
    ttft = result.stat[:, -1, result.metrics.index("ttft"), 4] * np.exp(own.ttft)
    return 1e3 * tpot, 1e3 * ttft


known = {"before": answers(posterior.population), "after one trace": answers(after)}
true = simulate(materialise(workload(9.0, 800), 999), deployment_limits(deployment), truth)
facts = [1e3 * true.stat[0, -1, true.metrics.index("tpot"), 0], 1e3 * true.stat[0, -1, 0, 4]]
fig, axes = plt.subplots(1, 2, figsize=(10, 2.8))
for axis, place, name in zip(axes, (0, 1), ("mean TPOT", "P99 TTFT"), strict=True):
    for k, (label, draws) in enumerate(known.items()):
        low, middle, high = np.quantile(draws[place], [0.055, 0.5, 0.945])
        axis.plot([low, high], [k, k], linewidth=8, alpha=0.4, color="#2459b3")
        axis.plot(middle, k, "o", color="#2459b3")
        print(
            f"{name} {label:16s} median {middle:6.1f} ms, 89 % interval {low:6.1f} .. {high:6.1f}"
        )
    axis.axvline(facts[place], color="#1a7f4b", linestyle="--", label="truth")
    axis.set_yticks([0, 1], list(known) if place == 0 else ["", ""])
    axis.set(xlabel=f"{name} at 9 requests/s, ms", ylim=(-0.6, 1.6))
axes[1].legend(frameon=False)
fig.tight_layout()

# %% [markdown]
# The run was observed at less than half the load that was asked about. It carries over because what
# was learned are coefficients of the step law, not a curve of latencies: the interval of the time per
# token shrinks. P99 TTFT moves towards the truth but keeps most of its width: from run to run TTFT
# differs by more than the step clock explains, and one run says little about the next in that.
