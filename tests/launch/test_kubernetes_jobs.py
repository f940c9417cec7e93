"""The manifest for Kubeflow Trainer: as it was read and found good, and as the API wants it."""

import json
import os
import re
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.tiny import tiny_settings
from unisono.cli import unisono
from unisono.config.load import to_toml
from unisono.launch.batch_systems import job_name
from unisono.secure.secret import SECRET, secret_of

HERE = Path(__file__).parent
SCHEMA = json.loads((HERE / "trainjob_schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int}
FULL = (
    *("--image", "registry.example.org/unisono:0.1.0", "--nodes", "3", "--workers", "2"),
    *("--directory", "/data", "--env", "NCCL_DEBUG=INFO"),
    *("--volume", "corpora:/data", "--volume", "runs:/runs"),
    *("--resource", "nvidia.com/gpu=2", "--resource", "memory=64Gi"),
    *("--set", "run=/runs/$(en-de)"),
)


def faults(value, schema, path="manifest"):
    """Yield what is wrong with a value; fields that the schema does not know are, too."""
    if "const" in schema and value != schema["const"]:
        yield f"{path} is not {schema['const']}"
    if "type" in schema and type(value) is not TYPES[schema["type"]]:
        yield f"{path} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from faults_of_object(value, schema, path)
    elif isinstance(value, list):
        if len(value) > schema["maxItems"]:
            yield f"{path} is too long"
        for index, inner in enumerate(value):
            yield from faults(inner, schema["items"], f"{path}[{index}]")
    elif isinstance(value, str):
        yield from faults_of_text(value, schema, path)


def faults_of_object(value, schema, path):
    for key in {*schema.get("required", ())} - {*value}:
        yield f"{path}.{key} is missing"
    for key, inner in value.items():
        known = schema.get("values") or schema["properties"].get(key)
        if known:
            yield from faults(inner, known, f"{path}.{key}")
        else:
            yield f"{path}.{key} is not known"


def faults_of_text(value, schema, path):
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9):
        yield f"{path} has a wrong length"
    if not re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL):
        yield f"{path} is not written as it has to be"


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("en-de.toml").write_text(to_toml(tiny_settings(tmp_path)))
    return "en-de.toml"


def launch(*words):
    return CliRunner().invoke(unisono, ["launch", "--kubernetes", *words])


def test_the_manifest_is_the_one_that_was_read_and_found_good(config):
    done = launch(config, *FULL)
    assert done.exit_code == 0, done.output
    written = Path("en-de.trainjob.json").read_text()
    assert written == (HERE / "golden" / "trainjob.json").read_text()
    assert "kubectl apply -f en-de.secret.json -f en-de.trainjob.json" in done.output
    shown = launch(config, *FULL, "--dry-run")
    assert shown.stdout == written


def test_the_models_of_kubeflow_itself_know_every_field():
    models = pytest.importorskip(
        "kubeflow_trainer_api.models", reason="no kubeflow-trainer-api"
    )
    manifest = json.loads((HERE / "golden" / "trainjob.json").read_text())
    read = models.TrainerV1alpha1TrainJob.from_dict(manifest)
    assert read.to_dict() == manifest  # what they do not know, they leave out


def test_the_pods_take_a_new_secret_from_a_file_that_nobody_else_reads(config):
    """Nor is it in the manifest, in what is printed, or in the old file of another mode."""
    found, old = [], os.umask(0)
    try:
        Path("en-de.secret.json").touch(0o666)
        for _ in range(2):
            done = launch(config, *FULL)
            file = Path("en-de.secret.json")
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            made, job = json.loads(file.read_text()), Path("en-de.trainjob.json").read_text()
            wanted = json.loads(job)["spec"]["trainer"]["env"][0]["valueFrom"]["secretKeyRef"]
            assert (made["kind"], made["metadata"]["name"]) == ("Secret", wanted["name"])
            text = made["stringData"][wanted["key"]]
            assert len(secret_of({SECRET: text})) == 32
            assert text not in done.output + job
            found.append(text)
    finally:
        os.umask(old)
    assert len(set(found)) == 2


def test_a_secret_among_the_arguments_is_refused(config):
    done = launch(config, *FULL, "--env", f"{SECRET}={'ab' * 32}")
    assert "does not go through arguments" in str(done.exception)
    assert "abab" not in str(done.exception)
    assert not Path("en-de.trainjob.json").exists()


@pytest.mark.parametrize("words", [FULL, ("--image", "x")])
def test_a_manifest_is_as_the_api_wants_it(config, words):
    manifest = json.loads(launch(config, *words, "--dry-run").stdout)
    assert list(faults(manifest, SCHEMA)) == []


def test_the_schema_notices_what_the_api_would_refuse(config):
    text = launch(config, *FULL, "--dry-run").stdout
    for right, wrong in (
        ('"numNodes": 3', '"numNodes": "3"'),
        ('"numProcPerNode"', '"procPerNode"'),
        ('"name": "en-de"', '"name": "En-De"'),
        ('"NCCL_DEBUG"', '"PET_NNODES"'),
        ('"manager": "unisono.launch",', ""),
        ('"claimName"', '"claim"'),
    ):
        assert right in text
        assert list(faults(json.loads(text.replace(right, wrong)), SCHEMA)), wrong


def test_paths_that_mean_another_place_in_the_container_are_noted(config):
    bare = launch(config, "--image", "x", "--dry-run")
    assert "note: en-de.toml" in bare.stderr
    assert "kubectl apply -f en-de.secret.json -f en-de.trainjob.json" in bare.stderr
    there = launch(config, "--image", "x", "--directory", "/data", "--dry-run")
    assert "note:" not in there.stderr


def test_names_of_configs_become_names_that_kubernetes_takes():
    assert job_name("WMT_en-de.v2") == "wmt-en-de-v2"
    assert job_name("2024") == "run-2024"
    assert len(job_name("x" * 100)) == 63
    assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", job_name("Ä--"))
