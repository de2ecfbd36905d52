"""A port that is kept for workers: free for them, taken for everybody else."""

from __future__ import annotations

import socket

import pytest

from tidings.errors import Unavailable
from tidings.node.supervisor.ports import KeptPort


def listener(port: int, *, is_shared: bool) -> socket.socket:
    one = socket.socket()
    if is_shared:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(("127.0.0.1", port))
    one.listen()
    return one


def test_workers_can_listen_on_a_kept_port_and_nobody_else() -> None:
    kept = KeptPort("127.0.0.1", 0, "--port")
    with (
        listener(kept.number, is_shared=True),
        listener(kept.number, is_shared=True),
        pytest.raises(OSError, match="in use"),
    ):
        listener(kept.number, is_shared=False)
    kept.close()


def test_a_connection_goes_to_a_worker_and_never_to_the_keeper() -> None:
    kept = KeptPort("127.0.0.1", 0, "--port")
    with listener(kept.number, is_shared=True) as worker:
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", kept.number), timeout=60):
                worker.accept()[0].close()
    kept.close()


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_port_on_which_another_program_listens_is_refused(is_shared: bool) -> None:
    with listener(0, is_shared=is_shared) as other:
        port = other.getsockname()[1]
        with pytest.raises(Unavailable, match=f"cannot listen on 127.0.0.1:{port}: the port is in use; .* --port"):
            KeptPort("127.0.0.1", port, "--port")


def test_a_host_that_is_not_ours_is_refused() -> None:
    with pytest.raises(Unavailable, match="--host"):
        KeptPort("192.0.2.1", 0, "--port")
