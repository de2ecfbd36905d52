"""The Kubernetes manifests: they fit together, a node takes their settings, its probes, ports and drain are real."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
import yaml

import tidings
from tests.support.deploy_files import DEPLOY, read_yaml, wrong_settings
from tests.support.nodes.node_process import command, environment
from tidings.bounds import DRAIN_S
from tidings.clock import Clock
from tidings.gateway.http.health import PageRoutes

FOLDER = DEPLOY / "kubernetes"
KINDS = {
    "namespace": ("v1", "Namespace"),
    "settings": ("v1", "ConfigMap"),
    "serviceaccount": ("v1", "ServiceAccount"),
    "tables": ("batch/v1", "Job"),
    "deployment": ("apps/v1", "Deployment"),
    "service": ("v1", "Service"),
    "pdb": ("policy/v1", "PodDisruptionBudget"),
    "hpa": ("autoscaling/v2", "HorizontalPodAutoscaler"),
    "networkpolicy": ("networking.k8s.io/v1", "NetworkPolicy"),
}


def manifest(name: str) -> Any:
    return read_yaml(f"kubernetes/{name}.yaml")


def pods() -> dict[str, Any]:
    """The two that run our image."""
    return {name: manifest(name)["spec"]["template"]["spec"] for name in ("deployment", "tables")}


def node() -> Any:
    (container,) = pods()["deployment"]["containers"]
    return container


def test_every_manifest_is_what_its_file_is_called_and_is_applied() -> None:
    found = {name: (manifest(name)["apiVersion"], manifest(name)["kind"]) for name in KINDS}
    assert found == KINDS
    resources = manifest("kustomization")["resources"]
    assert sorted(resources) == sorted(f"{name}.yaml" for name in KINDS)
    assert {path.name for path in FOLDER.iterdir()} == {"kustomization.yaml", *resources}


def test_kubectl_builds_them() -> None:
    tool = shutil.which("kubectl")
    if tool is None:
        pytest.skip("kubectl is not installed")
    built = subprocess.run([tool, "kustomize", str(FOLDER)], capture_output=True, text=True, timeout=60, check=True)
    documents = list(yaml.safe_load_all(built.stdout))
    assert len(documents) == len(KINDS)
    namespaces = {each["metadata"].get("namespace") for each in documents if each["kind"] != "Namespace"}
    assert namespaces == {"tidings"}
    running = [each["spec"]["template"]["spec"] for each in documents if each["kind"] in ("Deployment", "Job")]
    images = {container["image"] for pod in running for container in pod["containers"]}
    assert len(images) == 1 and images.pop().endswith(f"/tidings:{tidings.__version__}")


def test_kubectl_builds_the_variant_with_postgresql() -> None:
    tool = shutil.which("kubectl")
    if tool is None:
        pytest.skip("kubectl is not installed")
    folder = DEPLOY / "kubernetes-postgresql"
    built = subprocess.run([tool, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=True)
    documents = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    settings = documents["ConfigMap"]["data"]
    assert settings["TIDINGS_TABLES"].startswith("postgresql://") and "TIDINGS_BLOBS" in settings
    mounted = frozenset(f"/run/secrets/tidings/{name}" for name in ("auth_secret", "keyspace"))
    assert wrong_settings(settings, mounted) == []
    for kind in ("Deployment", "Job"):
        (container,) = documents[kind]["spec"]["template"]["spec"]["containers"]
        assert [one["name"] for one in container["env"]] == ["PGPASSWORD"]


def test_labels_names_and_ports_find_each_other() -> None:
    deployment, service = manifest("deployment"), manifest("service")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels == manifest("pdb")["spec"]["selector"]["matchLabels"]
    target = manifest("hpa")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    names = {port["name"]: port["containerPort"] for port in node()["ports"]}
    assert [port["targetPort"] for port in service["spec"]["ports"]] == list(names)
    assert names == {"http": 8000}


@pytest.mark.parametrize("name", ["deployment", "tables"])
def test_a_node_takes_the_settings_it_is_given(name: str) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"configMapRef": {"name": manifest("settings")["metadata"]["name"]}}]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    files = frozenset(f"{mounts['secrets']}/{key}" for key in ("auth_secret", "keyspace"))
    assert wrong_settings(manifest("settings")["data"], files) == []
    made = (FOLDER / "kustomization.yaml").read_text("utf-8")
    assert "--from-literal=auth_secret=" in made and "--from-literal=keyspace=" in made
    assert pod["serviceAccountName"] == manifest("serviceaccount")["metadata"]["name"]


@pytest.mark.parametrize("name", ["deployment", "tables"])
def test_no_variables_are_made_up_from_the_service_and_no_rights_are_left(name: str) -> None:
    pod = pods()[name]
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_node_refuses_the_variables_that_a_service_link_would_make() -> None:
    linked = {"TIDINGS_PORT": "tcp://10.0.0.1:80", "TIDINGS_SERVICE_HOST": "10.0.0.1"}
    answer = subprocess.run(command("config"), env=environment(linked), capture_output=True, text=True, timeout=120)
    assert answer.returncode == 2 and "TIDINGS_" in answer.stderr


@pytest.mark.parametrize("name", ["deployment", "tables"])
def test_the_words_are_words_of_the_command_line(name: str) -> None:
    words = pods()[name]["containers"][0]["args"]
    answer = subprocess.run(command(*words, "--help"), env=environment({}), capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr


def test_probes_ask_for_pages_that_exist() -> None:
    async def nothing() -> dict[str, str]:
        return {}

    async def no_metrics() -> tuple[bytes, str]:
        return b"", ""

    paths = {route.path for route in PageRoutes(nothing, lambda: False, no_metrics, Clock()).routes()}
    probes = {name: node()[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {probe["path"] for probe in probes.values()} <= paths
    assert probes["liveness"]["path"] == "/healthz" and probes["readiness"]["path"] == "/readyz"
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert manifest("deployment")["spec"]["template"]["metadata"]["annotations"]["prometheus.io/path"] in paths


def test_a_node_that_goes_has_time_for_its_drain() -> None:
    (sleep, seconds) = node()["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert pods()["deployment"]["terminationGracePeriodSeconds"] > int(seconds) + DRAIN_S
    assert manifest("deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert manifest("pdb")["spec"]["maxUnavailable"] == 1
    assert manifest("hpa")["spec"]["minReplicas"] > manifest("pdb")["spec"]["maxUnavailable"]


def test_nobody_but_the_ingress_and_the_figures_reaches_a_node_and_nodes_reach_only_their_stores() -> None:
    policy = manifest("networkpolicy")["spec"]
    assert policy["podSelector"] == {} and sorted(policy["policyTypes"]) == ["Egress", "Ingress"]
    (arrivals,) = policy["ingress"]
    assert all("namespaceSelector" in source for source in arrivals["from"])
    assert [port["port"] for port in arrivals["ports"]] == [node()["ports"][0]["containerPort"]]
    reached = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert reached == {53, 80, 443, 6379}
    anywhere = [way["ipBlock"] for rule in policy["egress"] for way in rule["to"] if "ipBlock" in way]
    assert [block.get("except") for block in anywhere if block["cidr"] == "0.0.0.0/0"] == [["169.254.0.0/16"]]
