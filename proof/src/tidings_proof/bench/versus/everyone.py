"""All servers of the comparison, ours first."""

from __future__ import annotations

from tidings_proof.bench.versus.ejabberd import EJABBERD
from tidings_proof.bench.versus.ours import OURS
from tidings_proof.bench.versus.socketio import SOCKETIO
from tidings_proof.bench.versus.textbook import TEXTBOOK

EVERYONE = (OURS, SOCKETIO, TEXTBOOK, EJABBERD)
