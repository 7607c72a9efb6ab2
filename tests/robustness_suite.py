"""Models and runs of the robustness suite: six runs to fit, three others to predict."""

from pathlib import Path

from deployments import deployment
from small_problem import MODEL, model_from, small_run
from tailcast.deployment import Deployment
from tailcast.inference.robustness import Suite

ALLREDUCE = """
[coefficients.tp_allreduce]
floor = 1.0
centre = 3.0
sd = 0.5
effects = { interconnect = 0.6 }
"""

CONTENTION = """
[coefficients.tp_contention]
value = 3.0
"""

SEEN = (
    ("seven-a", "llama-2-7b", 1, 8.0, 512, 60),
    ("seven-b", "llama-2-7b", 1, 20.0, 128, 60),
    ("fourteen", "qwen3-14b", 2, 8.0, 512, 60),
    ("thirty-four", "codellama-34b", 2, 5.0, 512, 60),
    ("seventy", "llama-2-70b", 4, 5.0, 512, 60),
    ("eight", "llama-3.1-8b", 4, 30.0, 256, 60),
)
HELD_OUT = (
    ("nemo", "mistral-nemo", 1, 8.0, 512, 60),
    ("thirty-four-4", "codellama-34b", 4, 8.0, 512, 60),
    ("seventy-8", "llama-2-70b", 8, 8.0, 512, 60),
)


def robustness_suite(folder: Path, n_request: int = 120) -> Suite:
    """The suite: contention and longer prompts are what the fitted model does not know."""
    head, tail = MODEL.split("[discrepancy.run]")
    scale = "centre = 0.04\nsd = 0.6\n"
    tail = (
        f"[discrepancy.deployment]\n{scale}[discrepancy.tensor_parallel]\n{scale}"
        f"[discrepancy.run]{tail}"
    )
    tail = tail.replace("sd = 0.3", "sd = 0.6")
    plans = (*SEEN, *HELD_OUT)

    def run(plan: tuple[str, str, int, float, int, int], stretch: float = 1.0):  # type: ignore[no-untyped-def]
        name, llm, tp, rate, prompt, output = plan
        own: Deployment = deployment(llm, tensor_parallel=tp)
        return small_run(
            name, own, rate=rate, prompt=int(prompt * stretch), output=output, n=n_request
        )

    return Suite(
        model=model_from(folder / "fitted", head + ALLREDUCE + tail),
        truth=model_from(folder / "truth", head + ALLREDUCE + CONTENTION + tail),
        seen=[run(plan) for plan in SEEN],
        held_out=[run(plan) for plan in HELD_OUT],
        longer={plan[0]: run(plan, 1.33) for plan in plans},
    )
