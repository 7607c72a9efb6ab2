"""Lone-prompt TTFT of a sweep that a posterior has not seen: `lone_prompts.py POSTERIOR CSV`.

Fit without the sweep first: `tailcast fit DATA --leave-out prefill_ttft.csv -o POSTERIOR`.
"""

import sys
from pathlib import Path

import numpy as np

from tailcast.basis import FEATURES
from tailcast.coefficients import step_law
from tailcast.inference.population import deployment_draws
from tailcast.inference.sweep_input import lone_prompt_features, sweep_deployment
from tailcast.posteriors import load_posterior
from tailcast.traces.step_sweeps import load_prefill_sweep

SHORTEST, LONGEST = 512, 16_000


def main() -> None:
    """Print predicted against observed medians by deployment and length."""
    posterior, sweep = load_posterior(sys.argv[1]), load_prefill_sweep(Path(sys.argv[2]))
    print("LLM                      TP vLLM     tokens      seen    median   error   89 %")
    errors, inside = [], []
    for configuration in sweep.served.configurations():
        llm, gpu, tensor_parallel, version = configuration
        columns = (
            sweep.served.llm,
            sweep.served.accelerator,
            sweep.served.tensor_parallel,
            sweep.served.version,
        )
        own = np.all(
            [column == value for column, value in zip(columns, configuration, strict=True)], axis=0
        )
        deployment = sweep_deployment(llm, gpu, tensor_parallel, version)
        draws = deployment_draws(posterior.population, deployment, 0)
        law = step_law(draws.coefficients, deployment)
        for length in np.unique(sweep.prompt_tokens[own]):
            cell = own & (sweep.prompt_tokens == length)
            warm = cell & (sweep.repeat > 0) if (cell & (sweep.repeat > 0)).any() else cell
            seen = float(np.median(sweep.ttft[warm]))
            features = lone_prompt_features(int(length))
            linear = sum(
                getattr(law, f"per_{name}") * features[k] for k, name in enumerate(FEATURES)
            )
            ttft = linear + law.ingest + law.stream
            low, middle, high = np.quantile(ttft, [0.055, 0.5, 0.945])
            error = middle / seen - 1
            if SHORTEST <= length <= LONGEST:
                errors.append(abs(error))
                inside.append(low <= seen <= high)
            print(
                f"{llm:24.24s} {tensor_parallel:2d} {version:8s} {length:6d} "
                f"{1e3 * seen:6.1f} ms {1e3 * middle:6.1f} ms {100 * error:+5.1f} % "
                f" {1e3 * low:.1f} .. {1e3 * high:.1f}"
            )
    print(
        f"{SHORTEST} to {LONGEST} tokens: largest error {100 * max(errors):.1f} %, "
        f"median {100 * float(np.median(errors)):.1f} %, 89 % intervals hold {sum(inside)} of "
        f"{len(inside)}"
    )


if __name__ == "__main__":
    main()
