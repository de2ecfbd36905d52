"""The Helm chart: its values exist, its templates are manifests, and a node takes its settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

import tidings
from tests.support.deploy_files import DEPLOY, read_yaml, wrong_settings

CHART = DEPLOY / "helm" / "tidings"
TEMPLATES = sorted((CHART / "templates").iterdir())
TEXTS = {path.name: path.read_text("utf-8") for path in TEMPLATES}
KINDS = {
    "settings.yaml": "ConfigMap",
    "serviceaccount.yaml": "ServiceAccount",
    "tables.yaml": "Job",
    "deployment.yaml": "Deployment",
    "service.yaml": "Service",
    "pdb.yaml": "PodDisruptionBudget",
    "hpa.yaml": "HorizontalPodAutoscaler",
    "ingress.yaml": "Ingress",
}


def values() -> Any:
    return read_yaml("helm/tidings/values.yaml")


def skeleton(text: str) -> Any:
    """The manifest without what only Helm knows: lines of control are gone, and a value is the letter x."""
    lines = [line for line in text.splitlines() if not re.fullmatch(r"\s*\{\{-? .* \}\}", line)]
    return yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", "\n".join(lines)))


def test_the_chart_is_of_the_version_of_the_server() -> None:
    chart = read_yaml("helm/tidings/Chart.yaml")
    assert (chart["apiVersion"], chart["name"], chart["appVersion"]) == ("v2", "tidings", tidings.__version__)


def test_every_template_is_the_manifest_that_its_file_is_called() -> None:
    found = {name: skeleton(text)["kind"] for name, text in TEXTS.items() if name.endswith(".yaml")}
    assert found == KINDS and TEXTS.keys() - found.keys() == {"_pod.tpl"}


def test_every_value_that_a_template_uses_exists_and_every_value_is_used() -> None:
    used = {name for text in TEXTS.values() for name in re.findall(r"\.Values\.([\w.]+)", text)}
    for name in used:
        place = values()
        for part in name.split("."):
            assert part in place, name
            place = place[part]
    assert {name.split(".")[0] for name in used} == values().keys()


def test_what_is_included_is_defined() -> None:
    defined = {name for text in TEXTS.values() for name in re.findall(r'define "([\w.]+)"', text)}
    included = {name for text in TEXTS.values() for name in re.findall(r'include "([\w.]+)"', text)}
    assert included == defined
    for text in TEXTS.values():
        assert len(re.findall(r"\{\{-? (?:if|range|define)", text)) == len(re.findall(r"\{\{-? end \}\}", text))


def test_a_node_takes_the_settings_of_the_chart() -> None:
    own = dict(re.findall(r"^  (TIDINGS_\w+): (/[\w/]+)$", TEXTS["settings.yaml"], re.MULTILINE))
    given = {**values()["settings"], **own, "TIDINGS_WORKERS": values()["workers"]}
    mounted = frozenset(f"/run/secrets/tidings/{name}" for name in ("auth_secret", "keyspace"))
    assert len(own) == 2 and wrong_settings(given, mounted) == []


def test_probes_and_the_drain_are_those_of_the_manifests() -> None:
    plain = read_yaml("kubernetes/deployment.yaml")["spec"]["template"]["spec"]
    pod = skeleton(TEXTS["deployment.yaml"])["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == plain["terminationGracePeriodSeconds"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe", "lifecycle", "args", "ports"):
        assert pod["containers"][0][name] == plain["containers"][0][name]


def test_helm_renders_it() -> None:
    tool = shutil.which("helm")
    if tool is None:
        pytest.skip("helm is not installed")
    words = [tool, "template", "chat", str(CHART), "--set", "ingress.enabled=true"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert {each["kind"] for each in yaml.safe_load_all(made.stdout) if each} == set(KINDS.values())
