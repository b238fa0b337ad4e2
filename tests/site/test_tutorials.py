"""Every tutorial runs: the quickest three here, in this process, and all of them in kernels of their own (slow)."""

import re

import pytest

from tests.site.notebooks import NAMES, TUTORIALS, cells

QUICKEST = ("6-my-model", "7-your-theorem", "8-event-by-event")


def test_there_are_eight_and_every_picture_is_described() -> None:
    assert [int(name.partition("-")[0]) for name in NAMES] == list(range(1, 9))
    for name in NAMES:
        text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
        for cell in re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            if re.search(r"(?m)^(bf\.report\.plot_\w+\(|\w+\.plot\(.*\)$|figure$)", cell):
                assert re.search(r"(?m)^    alt: .{30}", cell), (name, cell)


@pytest.mark.parametrize("name", QUICKEST)
def test_the_quickest_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cells(name)
    assert len(code) >= 2
    scope = {"__name__": "__main__"}
    for cell in code:
        exec(compile(re.sub(r"(?m)^%.*$", "", cell), f"{name}.md", "exec"), scope)
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_run_in_a_kernel(name: str) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells(name)])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    drawn = sum("image/png" in output.get("data", {}) for output in outputs)
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    assert drawn == text.count("\n    alt: ")
