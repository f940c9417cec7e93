"""The example notebook, executed in a real kernel."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"


def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_no_output_is_committed():
    nbformat.validate(notebook())
    for cell in notebook().cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.long(minutes=1)
@pytest.mark.filterwarnings("default")  # those of the client's own libraries
def test_the_notebook_runs_from_corpus_to_answers(tmp_path, monkeypatch, one_core):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOK.parents[1] / "src"))
    document = notebook()
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(document, timeout=800, resources=where).execute()
    outputs = [output for cell in document.cells for output in cell.get("outputs", [])]
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    (page,) = [output.data["text/html"] for output in outputs if "data" in output]
    assert "Where the time went" in page
    scores = [
        float(bleu) for bleu in re.findall(r"validation loss [\d.]+, BLEU ([\d.]+)", text)
    ]
    assert len(scores) == 5
    assert scores[-1] > scores[0]
    assert re.search(r"^BLEU [\d.]+ \([\d.]+ to [\d.]+\)$", text, re.MULTILINE)
