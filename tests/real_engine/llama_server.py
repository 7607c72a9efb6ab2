"""Run llama.cpp's own server from the xllamacpp wheel: ``llama_server.py MODEL PORT SLOTS``."""

import sys
import time

import xllamacpp  # type: ignore[import-not-found,unused-ignore]


def main() -> None:
    """Serve until killed; says `ready` when requests are taken."""
    model, port, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.port = port
    settings.n_parallel = slots
    settings.n_ctx = slots * 2048
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.endpoint_metrics = True
    settings.cont_batching = True
    server = xllamacpp.Server(settings)
    print("ready", server.listening_address, flush=True)  # noqa: T201
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
