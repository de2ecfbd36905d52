"""The secret of user tokens: required, or made by --dev and kept private."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_line import SECRET
from tidings.bounds import Limit
from tidings.config.secret import make_secret, to_serve, to_sign
from tidings.config.settings import Settings, load
from tidings.config.values import SettingsError


def settings_of(cwd: Path, flags: Mapping[str, str] | None = None) -> Settings:
    return load(flags or {}, {}, cwd).settings


def test_a_node_needs_a_way_to_check_tokens(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TIDINGS_AUTH_SECRET"):
        to_serve(settings_of(tmp_path))
    for flags in (
        {"auth.secret": SECRET},
        {"auth.jwks_url": "https://id.example/jwks"},
        {"auth.issuer": "https://id.example/"},
    ):
        settings = settings_of(tmp_path, flags)
        assert to_serve(settings) == settings


def test_dev_makes_a_secret_and_keeps_it_private(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, {"dev": "true"})
    first, second = to_serve(settings), to_serve(settings)
    assert first.auth.secret == second.auth.secret and len(first.auth.secret or "") >= 32
    kept = tmp_path / "tidings-data" / "auth.secret"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert [file.name for file in kept.parent.iterdir()] == ["auth.secret"]
    beside = settings_of(tmp_path, {"dev": "true", "auth.jwks_url": "https://id.example/jwks"})
    assert to_serve(beside).auth.secret == to_sign(beside).auth.secret == first.auth.secret


def test_dev_is_refused_off_loopback(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.168.1.4", "::", "chat.example"):
        with pytest.raises(SettingsError, match=r"127\.0\.0\.1 or ::1") as caught:
            to_serve(settings_of(tmp_path, {"dev": "true", "host": host}))
        assert host in str(caught.value)
    for host in ("127.0.0.1", "127.9.9.9", "[::1]", "localhost"):
        assert to_serve(settings_of(tmp_path, {"dev": "true", "host": host})).auth.secret


def test_a_token_is_signed_with_the_secret_set_or_with_the_one_dev_kept(tmp_path: Path) -> None:
    bare = settings_of(tmp_path)
    with pytest.raises(SettingsError, match="no secret"):
        to_sign(bare)
    kept = make_secret(bare.data)
    assert to_sign(bare).auth.secret == kept
    assert to_sign(settings_of(tmp_path, {"auth.secret": SECRET})).auth.secret == SECRET
    with pytest.raises(SettingsError, match="private keys"):
        to_sign(settings_of(tmp_path, {"auth.jwks_url": "https://id.example/jwks"}))


def test_an_empty_secret_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "auth.secret").touch()
    with pytest.raises(SettingsError, match="empty"):
        make_secret(tmp_path)


def test_dev_has_generous_limits_unless_the_operator_set_them(tmp_path: Path) -> None:
    dev = to_serve(load({"dev": "true"}, {}, tmp_path).settings)
    assert (dev.limits.send, dev.limits.create) == (Limit(1000, 60), Limit(200, 60))
    chosen = to_serve(load({"dev": "true"}, {"TIDINGS_LIMITS_SEND": "7/60s"}, tmp_path).settings)
    assert (chosen.limits.send, chosen.limits.read) == (Limit(7, 60), Limit(6000, 60))


def test_a_limit_that_the_operator_set_to_its_default_stays_with_dev(tmp_path: Path) -> None:
    loaded = load({"dev": "true"}, {"TIDINGS_LIMITS_SEND": "100/60s"}, tmp_path)
    limits = to_serve(loaded.settings, loaded.sources).limits
    assert (limits.send, limits.create) == (Limit(100, 60), Limit(200, 60))
