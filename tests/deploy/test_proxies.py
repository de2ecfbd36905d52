"""nginx and Caddy in front of nodes: sockets pass and live, figures stay inside."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.certificates import certificate
from tests.support.deploy_files import DEPLOY
from tidings.bounds import PING_INTERVAL_S

NGINX = (DEPLOY / "nginx.conf").read_text("utf-8")
CADDY = (DEPLOY / "Caddyfile").read_text("utf-8")


def test_nginx_passes_upgrades_and_leaves_a_silent_socket_open() -> None:
    for line in ("proxy_http_version 1.1;", "proxy_set_header Upgrade $http_upgrade;", "proxy_buffering off;"):
        assert line in NGINX
    assert all(int(found) > 2 * PING_INTERVAL_S for found in re.findall(r"proxy_(?:read|send)_timeout (\d+)s;", NGINX))
    assert "location = /metrics { return 404; }" in NGINX


def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    tool = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if tool is None:
        pytest.skip("nginx is not installed")
    pair = certificate(tmp_path)
    site = re.sub(r"/etc/letsencrypt/\S+\.pem", str(pair), NGINX)
    (tmp_path / "site.conf").write_text(site)
    conf = tmp_path / "nginx.conf"
    http = f"http {{ access_log off; include {tmp_path}/site.conf; }}"
    conf.write_text(f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}} {http}")
    answer = subprocess.run([tool, "-t", "-c", str(conf)], capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr


def test_caddy_keeps_figures_inside_and_asks_whether_a_node_is_ready() -> None:
    assert "respond @figures 404" in CADDY and "health_uri /readyz" in CADDY
    assert CADDY.count("{") == CADDY.count("}")
    tool = shutil.which("caddy")
    if tool is not None:
        subprocess.run([tool, "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile"], check=True)
