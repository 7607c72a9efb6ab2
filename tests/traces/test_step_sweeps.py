"""Controlled sweeps."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.errors import InputError
from tailcast.traces.step_sweeps import load_mixed_sweep, load_prefill_sweep, load_rate_sweep

MIXED = (
    "model,gpu,tp,vllm,decode_batch,resident_context_tokens,chunk_tokens,chunk_start_position,"
    "repeat,step_ms,flag\n"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.csv"
    path.write_text(text)
    return path


def test_misaligned_steps_are_left_out_and_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        MIXED
        + "m,H100,4,0.11.0,8,8400,512,0,0,17.5,misaligned: decode-only step\n"
        + "m,H100,4,0.11.0,8,8400,512,0,1,60.5,\n"
        + "m,H100,4,0.26.0,8,8400,512,512,2,61.5,context rounded per cell\n",
    )
    sweep = load_mixed_sweep(path)
    assert sweep.n_misaligned == 1
    assert sweep.step_time.tolist() == [0.0605, 0.0615]
    assert sweep.chunk_start.tolist() == [0, 512]
    assert sweep.context_rounded.tolist() == [False, True]
    assert sweep.served.configurations() == (("m", "H100", 4, "0.11.0"), ("m", "H100", 4, "0.26.0"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m,H100,4,1,8,1,1,0,0,nan,", r"sweep\.csv:2: step_ms must be a finite number"),
        ("m,H100,4,1,8,1,1,0,0,-1,", r"sweep\.csv:2: step_ms must be positive"),
        ("m,H100,0,1,8,1,1,0,0,1,", "tp must be at least 1"),
        ("m,H100,4,1,-8,1,1,0,0,1,", "decode_batch must be at least 0"),
        ("m,H100,4,1,8,1,0,0,0,1,", "chunk_tokens must be at least 1"),
        ("m,H100,4,1,8,1,1,0,0,1,odd", "flag 'odd' is not understood"),
        ("m,H100,4,1,8,1,1,0,0,1", "10 cells for 11 columns"),
        ("", "no rows"),
    ],
)
def test_bad_sweeps_are_refused_with_their_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_mixed_sweep(written(tmp_path, MIXED + line + "\n"))


def test_missing_columns_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "model,gpu,tp,vllm,prompt_tokens,repeat,ttft\nm,H100,1,1,5,0,3\n")
    with pytest.raises(InputError, match="no column 'ttft_ms'; did you mean 'ttft'"):
        load_prefill_sweep(path)


def test_bad_rates_are_refused(tmp_path: Path, shared_data: Path) -> None:
    source = shared_data / "step_time" / "guidellm_sweep_llama3.3-70b_1024x256.csv"
    text = source.read_text().replace("1.0448", "-1")
    with pytest.raises(InputError, match="target_rate_rps must be positive"):
        load_rate_sweep(written(tmp_path, text))


def test_the_published_sweeps_are_read(shared_data: Path) -> None:
    folder = shared_data / "step_time"
    prefill = load_prefill_sweep(folder / "prefill_ttft.csv")
    assert len(prefill.ttft) == 119
    assert len(prefill.served.configurations()) == 2
    mixed = load_mixed_sweep(folder / "mixed_step.csv")
    assert (len(mixed.step_time), mixed.n_misaligned) == (130, 2)
    rates = load_rate_sweep(folder / "guidellm_sweep_llama3.3-70b_1024x256.csv")
    assert np.isnan(rates.target_rate).sum() == 2
    assert rates.ttft.shape == (10, 3)
    assert np.all(rates.ttft[:, 2] >= rates.ttft[:, 0])
    assert rates.ttft[0, 0] == pytest.approx(0.0814435)
