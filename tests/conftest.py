"""Fixtures that several rooms share."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real measurements beside the project; the test is skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real measurements are not at {SHARED_DATA}")
    return SHARED_DATA
