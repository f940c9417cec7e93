"""The eleven questions, in the order they are answered."""

from typing import Any

from unisono.diagnose.report import Answer

QUESTIONS = {
    "duration": "How long did the run take, and how long will it still take?",
    "trained": "Is the model fully trained? How can you tell?",
    "overfitting": "Is it overfitting? Since when?",
    "devices": "Were the devices fully used: doing arithmetic, not waiting?",
    "network": "What was the network doing? Was it the bottleneck?",
    "learning_rate": "What does the learning-rate curve show, and why?",
    "training_set": "How big is the training set, before and after cleaning?",
    "checkpoint_files": "Which files is a checkpoint made of, and what is in each?",
    "checkpoint_size": "How big is a checkpoint, and why?",
    "step_time": "How long does an average step take, and what is it made of?",
    "step_vs_network": "How does step time go with network use between the nodes?",
}


def reply(
    name: str,
    verdict: str,
    summary: str,
    *,
    values: dict[str, Any] | None = None,
    evidence: list[str] | None = None,
    advice: str = "",
) -> Answer:
    """Answer the question `name`."""
    return Answer(
        id=name,
        question=QUESTIONS[name],
        verdict=verdict,
        summary=summary,
        values=values or {},
        evidence=tuple(evidence or ()),
        advice=advice,
    )
