"""`strided explore`: pages of layouts, programs, dumps and two runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import strided as sd
from tests import paths
from tests.commands import TEXT, Run


def test_explore(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    code, said, _ = run("explore", TEXT, "-o", out)
    assert (code, said) == (0, f"{out}: {out.stat().st_size:,} bytes\n")
    assert run("explore", TEXT, "-o", out)[0] == 2
    assert run("explore", TEXT, "-o", "-")[:2] == (0, out.read_text(encoding="utf-8") + "\n")
    sd.LayoutArray.from_numpy(np.arange(15.0, dtype=np.float32).reshape(3, 5), TEXT).buffer.tofile(tmp_path / "x.bin")
    assert run("explore", tmp_path / "x.bin", TEXT, "-o", out, "--force", "--to", "{0,1}")[0] == 0
    assert '"values":{' in out.read_text(encoding="utf-8")
    module = tmp_path / "module.txt"
    module.write_text("HloModule m\n\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n", encoding="utf-8")
    assert run("explore", module, "-o", tmp_path / "m.html")[0] == 0
    assert "<h1>m</h1>" in (tmp_path / "m.html").read_text(encoding="utf-8")
    report = paths.DATA / "memory" / "hbm_attention_scores_v5e.txt"
    assert run("explore", report, "-o", tmp_path / "r.html")[0] == 0
    assert "Memory at the peak" in (tmp_path / "r.html").read_text(encoding="utf-8")
    (tmp_path / "words.txt").write_text("no program at all\n", encoding="utf-8")
    assert run("explore", tmp_path / "words.txt", "-o", tmp_path / "w.html")[0] == 2
    assert run("explore", "token[]", "-o", tmp_path / "y.html")[:2] == (2, "")
    assert not (tmp_path / "y.html").exists()


def test_explore_a_dump_and_two_runs(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert run("explore", folder, "-o", out)[0] == 0
    assert '{"dump":' in out.read_text(encoding="utf-8")
    snapshot = next(folder.glob("*.snapshot.*"))
    assert run("explore", snapshot, "-o", out, "-f")[0] == 0
    assert f"<h1>{snapshot.name}</h1>" in out.read_text(encoding="utf-8")
    assert run("explore", folder, "--against", folder, "-o", out, "-f")[0] == 0
    assert "the modules are equal" in out.read_text(encoding="utf-8")
    values = np.arange(15.0, dtype=np.float32).reshape(3, 5)
    for k, name in enumerate(("a.bin", "b.bin")):
        sd.LayoutArray.from_numpy(values + k * 1e-6, TEXT).buffer.tofile(tmp_path / name)
    pair = "explore", tmp_path / "a.bin", TEXT, "--against", tmp_path / "b.bin", "-o", out, "-f"
    pages = []
    for options in ((), ("--rtol", "1e-2", "--atol", "1e-2"), ("--against-shape", "f32[3,5]{0,1:T(2,2)}")):
        assert run(*pair, *options)[0] == 0
        pages.append(out.read_text(encoding="utf-8"))
    assert '"runs":' in pages[0]
    assert len(set(pages)) == 3
    other = "f32[3,5]{0,1:T(2,2)}"
    assert run("explore", tmp_path / "a.bin", TEXT, "--against", tmp_path / "b.bin", other, "-o", out, "-f")[0] == 0
    assert out.read_text(encoding="utf-8") == pages[2]
    assert run("explore", tmp_path / "a.bin", "--against", tmp_path / "b.bin", "-o", out, "-f")[0] == 2


@pytest.mark.parametrize("option", [("--offset", "64"), ("--bitorder", "big"), ("--allow-excess",)], ids=str)
def test_options_for_bytes_go_with_bytes(run: Run, folder: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    for source in ("u4[4]{0:E(4)}", folder):
        code, _, error = run("explore", source, *option, "-o", tmp_path / "page.html")
        assert (code, "go with a file of raw bytes" in error) == (2, True)
