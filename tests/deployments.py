"""Deployments that several tests use."""

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings


def deployment(
    name: str = "llama-3.1-8b",
    gpu: str = "h100-sxm",
    tensor_parallel: int = 1,
    *,
    weights: str | None = None,
    kv_blocks: int | None = None,
    max_num_batched_tokens: int = 2048,
    max_num_seqs: int = 128,
    max_model_len: int | None = 4096,
    version: str = "0.15.1",
) -> Deployment:
    """A deployment of catalogue parts with the campaign's engine settings."""
    return Deployment(
        llm=llm(name),
        accelerator=accelerator(gpu),
        tensor_parallel=tensor_parallel,
        weights=weights,
        kv_blocks=kv_blocks,
        engine=EngineSettings(
            version=version,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            max_model_len=max_model_len,
        ),
    )
