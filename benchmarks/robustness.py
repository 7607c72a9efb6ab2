"""Robustness suite of the inference: `python benchmarks/robustness.py [TRUTHS] [SEED]`.

Held-out coverage under faults that the fitted model does not know, beside a control without
discrepancy; experiments are counted, three to a truth. Takes some 10 s a truth.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from robustness_suite import HELD_OUT, robustness_suite
from tailcast.inference.robustness import robustness


def main() -> None:
    """Print one line a fault and fit."""
    n_truth, seed = (int(v) for v in (*sys.argv[1:], *("24", "101")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        found = robustness(
            robustness_suite(Path(folder)),
            n_truth=n_truth,
            seed=seed,
            report=lambda line: print(line, file=sys.stderr, flush=True),
        )
    print(f"{n_truth} truths, {n_truth * len(HELD_OUT)} held-out experiments, seed {seed}")
    print(f"{'fault':12s} {'fit':8s}   50 %   80 %   90 %  width90")
    for row in found:
        kind = "control" if row.control else "model"
        covered = "  ".join(f"{row.coverage(p):.3f}" for p in (0.5, 0.8, 0.9))
        print(f"{row.fault:12s} {kind:8s}  {covered}  {row.width90:.3f}")


if __name__ == "__main__":
    main()
