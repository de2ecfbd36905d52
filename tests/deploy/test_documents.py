"""The check of settings notices what a node would refuse."""

from __future__ import annotations

from tests.support.deploy_files import wrong_settings


def test_good_settings_are_left_alone() -> None:
    environ = {"TIDINGS_PORT": "8000", "TIDINGS_AUTH_SECRET_FILE": "/run/s", "AWS_REGION": "eu-west-1"}
    assert wrong_settings(environ, frozenset(("/run/s",))) == []


def test_an_unknown_name_a_bad_value_and_a_missing_file_are_noticed() -> None:
    environ = {"TIDINGS_PROT": "1", "TIDINGS_PORT": "tcp://10.0.0.1:80", "TIDINGS_KEYSPACE_FILE": "/nowhere"}
    assert len(wrong_settings(environ, frozenset())) == 3
