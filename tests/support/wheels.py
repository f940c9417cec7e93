"""Small wheels for tests that install something."""

import zipfile


def wheel_with(folder, name, files):
    """Write a wheel that installs `files`, and return it."""
    path, info = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{one},,\n" for one in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for one, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(one, text)
    return path
