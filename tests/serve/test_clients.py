"""Clients of others, from the registries, as they are."""

import json
import shutil
import subprocess
import urllib.error

import pytest

from serve.running import RunningServer

pytestmark = pytest.mark.ranks

NPM_CLIENT = "translate@3.1.0"
SCRIPT = """
import translate from "translate";
const [url, key] = process.argv.slice(2);
Object.assign(translate, { engine: "libre", url: url + "/translate", key });
try {
  const texts = [];
  for (const text of ["to be", "or not"]) texts.push(await translate(text, "de"));
  console.log(JSON.stringify(texts));
} catch (error) {
  console.log(JSON.stringify(error.message));
}
"""


def test_libretranslatepy(server, english_to_german):
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url)
    [expected] = english_to_german(["to be"])
    assert client.translate("to be", "en", "de") == expected
    assert {one["code"] for one in client.languages()} == {"en", "de"}
    assert client.detect("This is an English sentence.")[0]["language"] == "en"
    with pytest.raises(urllib.error.HTTPError, match="400") as found:
        client.translate("to be", "en", "xx")
    found.value.close()


@pytest.fixture(scope="module")
def npm_client(tmp_path_factory):
    home = tmp_path_factory.mktemp("npm")
    if not (shutil.which("npm") and shutil.which("node")):
        pytest.skip("there is no npm here")
    (home / "package.json").write_text("{}")
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", NPM_CLIENT]
    done = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install {NPM_CLIENT}: {done.stderr[-200:]}")
    (home / "ask.mjs").write_text(SCRIPT)
    return home


def node(home, *words):
    done = subprocess.run(
        ["node", "ask.mjs", *words], cwd=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    return json.loads(done.stdout)


def test_the_npm_client(server, npm_client, english_to_german):
    assert node(npm_client, server.url) == english_to_german(["to be", "or not"])


def test_clients_send_their_key(bundle, npm_client, tmp_path, english_to_german):
    (tmp_path / "keys").write_text("a-good-key\n")
    api = pytest.importorskip("libretranslatepy").LibreTranslateAPI
    [expected] = english_to_german(["to be"])
    with RunningServer(bundle.path, "--keys", tmp_path / "keys") as server:
        assert api(server.url, "a-good-key").translate("to be", "en", "de") == expected
        assert node(npm_client, server.url, "a-good-key")[0] == expected
        assert node(npm_client, server.url, "a-bad-key") == "Invalid API key"
        assert "an API key is required" in node(npm_client, server.url)
        for key in (None, "a-bad-key"):
            with pytest.raises(urllib.error.HTTPError, match="403") as found:
                api(server.url, key).translate("to be", "en", "de")
            found.value.close()
        assert server.get("/languages")[0] == 200
        assert server.post("/detect", q="a")[0] == 403
        assert "a-good-key" not in "".join(server.lines)
