"""The three-number chain as a PyTensor operation with its own derivatives.

Autodiff of the chain costs PyTensor minutes of compilation in every process; this is one node
whose loops are compiled once and kept on disk. PyTensor's numba cache does the same for the rest
of the graph, as long as data enter as shared variables and not as constants.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key

from tailcast.queueing.sensitivity_kernel import fill_latencies

N_METRIC = 3
_N_DATA = 4
_VERSION = 1


class ChainLatencies(Op):  # type: ignore[misc]
    """Logs of TTFT (with overhead), ITL and throughput, and their derivatives.

    Inputs are the logs of alpha, beta, gamma in seconds and the overhead in seconds, shape (4,);
    prompt tokens, output tokens and rates, each of shape (n_window,); and prefill steps, shape
    (n_window, B). Outputs have the shapes (n_window, 3) and (n_window, 3, 4).

    Parameters
    ----------
    n_tail : int
        Places in the waiting room.
    """

    __props__ = ("n_tail",)

    def __init__(self, n_tail: int) -> None:
        self.n_tail = n_tail

    def make_node(self, *inputs: Any) -> Apply:
        """Build the node.

        Parameters
        ----------
        *inputs : tensor_like
            Parameters, then the four columns of data.

        Returns
        -------
        Apply
            With values and derivatives as outputs.
        """
        tensors = [pt.as_tensor_variable(one) for one in inputs]
        values = pt.tensor(dtype="float64", shape=(None, N_METRIC))
        slopes = pt.tensor(dtype="float64", shape=(None, N_METRIC, 4))
        return Apply(self, tensors, [values, slopes])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        """Evaluate without compiling.

        Parameters
        ----------
        node : Apply
            This node.
        inputs : sequence of ndarray
            See the class.
        output_storage : list
            Filled.
        """
        del node
        values, slopes = _latencies(list(inputs), self.n_tail)
        output_storage[0][0], output_storage[1][0] = values, slopes

    def pullback(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        cotangents: Sequence[Variable],
    ) -> list[Variable]:
        """Gradient in the parameters; the data have none.

        Parameters
        ----------
        inputs, outputs, cotangents : sequence of Variable
            Of the node; derivatives of the derivatives are not available.

        Returns
        -------
        list of Variable
            One an input.
        """
        gradient = (cotangents[0][..., None] * outputs[1]).sum(axis=(0, 1))
        return [gradient, *(DisconnectedType()() for _ in inputs[1:])]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Which output depends on which input in a differentiable way.

        Parameters
        ----------
        node : Apply
            This node.

        Returns
        -------
        list of list of bool
            Only the values, and only on the parameters.
        """
        del node
        return [[True, False]] + [[False, False]] * _N_DATA


def _with_overhead(values: Any, slopes: Any, overhead: float) -> tuple[Any, Any]:
    n_window = values.shape[0]
    found, derivatives = np.empty((n_window, 3)), np.zeros((n_window, 3, 4))
    for window in range(n_window):
        for metric in range(3):
            found[window, metric] = values[window, metric]
            for axis in range(3):
                derivatives[window, metric, axis] = slopes[window, metric, axis]
        plain = np.exp(values[window, 0])
        found[window, 0] = np.log(plain + overhead)
        for axis in range(3):
            derivatives[window, 0, axis] *= plain / (plain + overhead)
        derivatives[window, 0, 3] = 1.0 / (plain + overhead)
    return found, derivatives


def _latencies(inputs: list[Any], n_tail: int) -> tuple[Any, Any]:
    parameters, tokens_in, tokens_out, rate, chunks = inputs
    values, slopes = np.empty((1, rate.size, 5)), np.empty((1, rate.size, 4, 4))
    rates, table = np.ascontiguousarray(rate[None]), np.ascontiguousarray(chunks)
    numbers = np.ascontiguousarray(parameters[None, :3])
    fill_latencies(numbers, tokens_in, tokens_out, rates, table, n_tail, values, slopes)
    return _with_overhead(values[0], slopes[0], float(parameters[3]))


@register_funcify_default_op_cache_key(ChainLatencies)  # type: ignore[untyped-decorator]
def _compile_chain_latencies(op: ChainLatencies, node: Any = None, **_: Any) -> tuple[Any, int]:
    del node
    n_tail = op.n_tail
    with_overhead = numba_njit(_with_overhead)

    @numba_njit  # type: ignore[untyped-decorator]
    def chain_latencies(
        parameters: Any, tokens_in: Any, tokens_out: Any, rate: Any, chunks: Any
    ) -> tuple[Any, Any]:
        values, slopes = np.empty((1, rate.size, 5)), np.empty((1, rate.size, 4, 4))
        numbers, rates = np.empty((1, 3)), np.empty((1, rate.size))
        numbers[0] = parameters[:3]
        rates[0] = rate
        table = np.ascontiguousarray(chunks)
        prompts, outputs = np.ascontiguousarray(tokens_in), np.ascontiguousarray(tokens_out)
        fill_latencies(numbers, prompts, outputs, rates, table, n_tail, values, slopes)
        return with_overhead(values[0], slopes[0], parameters[3])  # type: ignore[no-any-return]

    return chain_latencies, _VERSION
