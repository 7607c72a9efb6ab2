"""Deployments named by trace headers."""

from dataclasses import replace

import pytest

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings, engine_defaults
from tailcast.errors import CatalogError, InputError
from tailcast.traces.trace_header import TraceHeader, TraceServer
from tailcast.traces.trace_server import server_of, trace_deployment


def header(**server: object) -> TraceHeader:
    named = {"model": "llama-2-7b", "accelerator": "h100-sxm-80gb"} | server
    return TraceHeader(server=TraceServer(**named))  # type: ignore[arg-type]


def test_a_deployment_survives_the_header() -> None:
    deployment = Deployment(
        llm=llm("llama-2-7b"),
        accelerator=accelerator("h100"),
        tensor_parallel=2,
        engine=EngineSettings(
            version="0.14.0", max_num_seqs=64, max_model_len=2048, prefix_caching=False
        ),
        weights="fp8",
        kv_blocks=5000,
    )
    assert trace_deployment(TraceHeader(server=server_of(deployment))) == deployment


def test_what_the_header_leaves_out_is_vllms_default() -> None:
    deployment = trace_deployment(header())
    expected = engine_defaults(deployment.accelerator)
    assert deployment.engine == replace(expected, name="vllm")


@pytest.mark.parametrize("name", ["model", "accelerator"])
def test_headers_without_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"no server.{name}"):
        trace_deployment(header(**{name: None}))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(CatalogError):
        trace_deployment(header(accelerator="abacus"))
