#!/usr/bin/python3
"""Make the notebooks of this folder of the texts in texts/, and run them with R's kernel.

Debian: python3-nbclient r-cran-irkernel r-cran-dplyr r-cran-readr r-cran-lubridate. A text has cells between lines
"#%% code" and "#%% md"; one that begins with "#!not run" is left as it is, one with "#!cleared" loses its outputs.
"""

import pathlib
import os
import sys

import nbformat
from nbclient import NotebookClient

os.environ["TZ"] = "UTC"  # else R asks the system, and warns
HERE = pathlib.Path(__file__).resolve().parent
TEXTS = HERE / "texts"


def make(path):
    text = path.read_text()
    first, _, rest = text.partition("\n")
    mark = first if first.startswith("#!") else ""
    nb = nbformat.v4.new_notebook(metadata={"kernelspec": {"display_name": "R", "language": "R", "name": "ir"}})
    kind, lines, cells = "md", [], []

    def flush():
        source = "\n".join(lines).strip("\n")
        if source:
            cells.append((nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell)(source))

    for line in (rest if mark else text).split("\n"):
        if line in ("#%% code", "#%% md"):
            flush()
            kind, lines = line.split()[1], []
        else:
            lines.append(line)
    flush()
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i + 1}"
    nb.cells = cells
    if mark != "#!not run":
        NotebookClient(nb, timeout=120, kernel_name="ir", allow_errors=True, resources={"metadata": {"path": str(HERE)}}).execute()
    for cell in nb.cells:
        cell["metadata"].pop("execution", None)  # times of day
        if cell["cell_type"] == "code" and mark == "#!cleared":
            cell["outputs"], cell["execution_count"] = [], None
    nbformat.write(nb, HERE / path.relative_to(TEXTS).with_suffix(".ipynb"))


for name in sys.argv[1:] or TEXTS.rglob("*.txt"):
    make(pathlib.Path(name).resolve())
