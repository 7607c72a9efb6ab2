"""The workloads that ship with the package."""

import numpy as np
import pytest

from tailcast.workload.lengths import Gaussian
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise
from tailcast.workload.presets import preset_names, preset_table

BLIS = {
    "chatbot": ((256, 100, 2, 800), (256, 100, 1, 1024)),
    "contentgen": ((1024, 150, 10, 2048), (1024, 200, 10, 2048)),
    "summarization": ((4096, 500, 100, 8192), (512, 150, 10, 2048)),
    "multidoc": ((10240, 1200, 500, 20480), (1536, 300, 50, 4096)),
}
REPEATED = {
    "general": (547, 248),
    "codegen": (566, 247),
    "roleplay": (750, 251),
    "reasoning": (1034, 1448),
}


def test_every_preset_is_known_here() -> None:
    assert set(preset_names()) == set(BLIS) | set(REPEATED)


@pytest.mark.parametrize("name", BLIS)
def test_presets_of_blis_have_its_lengths(name: str) -> None:
    kind = workload_from_mapping({"preset": name, "rate": 1}, "w").classes[0]
    laws = [
        Gaussian(mean=mean, sd=sd, minimum=low, maximum=high) for mean, sd, low, high in BLIS[name]
    ]
    assert [kind.input_tokens, kind.output_tokens] == laws


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_presets_send_a_hundred_prompts_over_and_over(name: str) -> None:
    workload = workload_from_mapping({"preset": name, "rate": 5, "duration": "100s"}, "w")
    table = materialise(workload, 3)
    assert len(table) == 500
    assert len(np.unique(table.content_stream)) == 100
    assert len(np.unique(table.prefix_stream)) == 10
    assert (int(table.input_tokens[0]), int(table.output_tokens[0])) == REPEATED[name]
    assert workload.name == name


def test_preset_names_ignore_case_and_tables_are_copies() -> None:
    table = preset_table("ChatBot")
    table.clear()
    assert preset_table("chatbot")
