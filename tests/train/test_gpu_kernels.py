import os

import pytest
import torch

from unisono.train.process_setup import choose_gpu_kernels


@pytest.fixture
def told(monkeypatch):
    """What torch was told; nothing here has a GPU."""
    told = {}
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(
        torch.backends.cuda, "enable_cudnn_sdp", lambda on: told.update(cudnn_attention=on)
    )
    monkeypatch.setattr(
        torch, "use_deterministic_algorithms", lambda on: told.update(deterministic=on)
    )
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    return told


def test_a_gpu_builds_no_plan_of_attention_for_every_shape(told):
    choose_gpu_kernels("cuda:1", deterministic=False)
    assert told == {"cudnn_attention": False}
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_deterministic_kernels_are_chosen_before_cublas_starts(told, monkeypatch):
    choose_gpu_kernels("cuda:0", deterministic=True)
    assert told["deterministic"] is True
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")


def test_a_cpu_is_left_alone(told):
    choose_gpu_kernels("cpu", deterministic=True)
    assert not told
