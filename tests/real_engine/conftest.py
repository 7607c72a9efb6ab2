"""One server of each real engine a session."""

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
    serving,
)

XLLAMACPP = "2026.10.11549"
SLOTS = 8


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """llama.cpp's server with a tiny model, 8 slots of 2048 tokens."""
    try:
        python = environment(
            f"xllamacpp-{XLLAMACPP}",
            sys.executable,
            [["install", "-q", f"xllamacpp=={XLLAMACPP}", "gguf==0.19.0", "numpy"]],
        )
    except EngineUnavailableError as reason:
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
def engines_available() -> str:
    """Folder of the environments, for messages."""
    return str(engines_folder())
