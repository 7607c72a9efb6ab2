"""Prometheus pages of several engines and versions."""

from pathlib import Path

import pytest

from tailcast.observe.metrics import kept_lines, read_page
from tailcast.observe.scrape import Scrapes

NEW = """# HELP vllm:num_requests_running x
vllm:num_requests_running{engine="0",model_name="a, b"} 3.0
vllm:num_requests_running{engine="1",model_name="a, b"} 4.0
vllm:kv_cache_usage_perc{engine="0"} 0.2
vllm:kv_cache_usage_perc{engine="1"} 0.4
vllm:prefix_cache_hits_total{engine="0"} 7
vllm:generation_tokens_created{engine="0"} 1.7e9
vllm:cache_config_info{block_size="32",cache_dtype="fp8",enable_prefix_caching="False",\
gpu_memory_utilization="0.85",num_gpu_blocks="4096",num_gpu_blocks_override="None"} 1.0
"""


def test_label_sets_are_added_up_but_kv_usage_is_averaged() -> None:
    page = read_page(NEW)
    assert page.values["running"] == 7
    assert page.values["kv_usage"] == pytest.approx(0.3)
    assert page.values["prefix_hits"] == 7
    assert "generation_tokens" not in page.values


def test_settings_come_from_the_cache_config() -> None:
    assert read_page(NEW).settings == {
        "block_size": 32,
        "kv_blocks": 4096,
        "gpu_memory_utilization": 0.85,
        "prefix_caching": False,
        "kv_dtype": "fp8",
    }


def test_old_names_are_read_and_new_ones_win() -> None:
    old = "vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_queries_total 9\n"
    assert read_page(old).values == {"kv_usage": 0.5, "prefix_queries": 9.0}
    both = read_page(old + "vllm:kv_cache_usage_perc 0.25\n")
    assert both.values["kv_usage"] == 0.25
    assert both.found["kv_usage"] == "vllm:kv_cache_usage_perc"


def test_llama_cpp_names_are_read() -> None:
    page = read_page("llamacpp:requests_processing 2\nllamacpp:tokens_predicted_total 40\n")
    assert page.values == {"running": 2.0, "generation_tokens": 40.0}


def test_nonsense_is_skipped() -> None:
    assert read_page("<html>\nvllm:num_requests_running NaN\nvllm:x{y=\n").values == {}


def test_only_engine_lines_are_kept() -> None:
    kept = kept_lines("python_info 1\n" + NEW)
    assert "python_info" not in kept
    assert "_created" not in kept
    assert "# HELP vllm:num_requests_running" in kept


def test_counters_that_fall_mean_a_restart_and_count_from_zero() -> None:
    scrapes = Scrapes()
    for time, value in enumerate((100, 130, 10, 25)):
        scrapes.add(float(time), f"vllm:generation_tokens_total {value}\n")
    scrapes.add(9.0, "")
    assert scrapes.n_restarts == 1
    assert scrapes.increases() == {"generation_tokens": 30 + 10 + 15}
    assert scrapes.n_failed == 1


def test_a_real_page_is_read(shared_data: Path) -> None:
    text = (shared_data / "cpu_engine_trace" / "metrics_after.prom").read_text()
    page = read_page(text)
    assert page.settings["kv_blocks"] == 4096
    assert page.values["finished_requests"] == 372
    assert page.values["ttft_count"] == 372
    missing = {"cached_tokens", "gap_sum", "queue_sum", "preemptions"} - set(page.values)
    assert not missing
