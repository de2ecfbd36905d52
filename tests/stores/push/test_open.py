"""Which providers a node has: those whose key is named, and a clear line for everything that is wrong with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.servers.push_services import FcmStandin, pem_of
from tidings.clock import Clock
from tidings.config.settings import Push
from tidings.stores.push.open import open_providers
from tidings.stores.push.webpush import WebPush


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    file = tmp_path / "key.pem"
    file.write_text(pem_of(ec.generate_private_key(ec.SECP256R1())))
    return file


async def test_without_a_key_there_is_no_provider() -> None:
    assert open_providers(Push(), Clock()) == {}


async def test_each_key_that_is_named_opens_its_provider(pem: Path, tmp_path: Path) -> None:
    account = tmp_path / "account.json"
    account.write_text(FcmStandin(url="http://localhost:1").credentials)
    settings = Push(
        apns_key_file=pem,
        apns_key_id="K",
        apns_team_id="T",
        apns_topic="com.example",
        fcm_credentials_file=account,
        vapid_key_file=pem,
        vapid_contact="mailto:ops@chat.example",
    )
    providers = open_providers(settings, Clock())
    assert sorted(providers) == ["apns", "fcm", "webpush"]
    assert isinstance(providers["webpush"], WebPush) and len(providers["webpush"].public_key) == 87
    for provider in providers.values():
        await provider.close()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"apns_key_id": None}, "push.apns_key_id is missing"),
        ({"apns_team_id": None}, "push.apns_team_id is missing"),
        ({"apns_topic": None}, "push.apns_topic is missing"),
        ({"apns_key_file": Path("nowhere.p8")}, "push.apns_key_file: cannot read nowhere.p8"),
        ({"fcm_credentials_file": Path("nowhere.json")}, "push.fcm_credentials_file: cannot read"),
        ({"fcm_credentials_file": "pem"}, "it is not the JSON file of a service account"),
        ({"vapid_key_file": "pem"}, "push.vapid_contact is missing"),
    ],
)
async def test_what_is_missing_or_wrong_is_named_in_one_line(pem: Path, fields: dict[str, Any], named: str) -> None:
    whole = Push(apns_key_file=pem, apns_key_id="K", apns_team_id="T", apns_topic="com.example")
    given: dict[str, Any] = {name: pem if text == "pem" else text for name, text in fields.items()}
    settings = dataclasses.replace(whole, **given)
    with pytest.raises(ValueError) as refusal:
        open_providers(settings, Clock())
    assert named in str(refusal.value) and "\n" not in str(refusal.value)
