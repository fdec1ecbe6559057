#!/usr/bin/env python3
"""The pages of `ringlet report` and `evaluate --report` in headless Chromium.

    report_browser_test.py                  no page is wider than its window
    report_browser_test.py --write FOLDER   writes the pictures of docs/report.md

Each page is laid out at 390 and 1,280 pixels, light and dark, and drawn. Skips where
Chromium is missing. RINGLET_BUILD names the folder of the build.
"""
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import report_samples
from made_runs import PROGRAM, fashion_mnist, layer, sequential

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = (390, 1280)
FRAME = """<html><body style="margin:0"><iframe id="f" src="{page}"
 style="border:0;width:{width}px;height:900px"></iframe><p id="o"></p><script>
f.onload = function() {{
  var d = f.contentDocument, e = d.documentElement;
  o.textContent = [e.scrollWidth, e.clientWidth, e.scrollHeight,
    d.querySelectorAll("figure").length, getComputedStyle(d.body).backgroundColor].join(";");
}}
</script></body></html>"""


def browse(folder, dark, *arguments):
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--disable-background-networking", "--disable-component-update",
               "--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"]
    if dark:
        command.append("--blink-settings=preferredColorScheme=0")
    return subprocess.run([*command, *arguments], stdin=subprocess.DEVNULL, timeout=300, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def layout(folder, page, width, dark):
    """(width, width of the window, height, number of charts, background)."""
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(page=page.as_uri(), width=width))
    dom = browse(folder, dark, "--dump-dom", frame.as_uri())
    found = re.search(r'<p id="o">([^<]+)</p>', dom)
    assert found, dom[-2000:]
    *numbers, background = found[1].split(";")
    return [*map(int, numbers), background]


def draw(folder, page, picture, width, height, dark):
    browse(folder, dark, f"--window-size={width},{height}", f"--screenshot={picture}",
           page.as_uri())
    png = picture.read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (width, height)
    return png


def make_pages(folder):
    """The page of a made-up run, and that of an evaluation."""
    report_samples.write_all(folder / "run")

    def run(*arguments):
        subprocess.run([PROGRAM, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    run("report", "run", "-o", "report.html")
    (folder / "run.json").write_text(json.dumps({
        "model": sequential(layer("InputLayer", batch_shape=[None, 28, 28]), layer("Flatten"),
                            layer("Dense", units=32, activation="relu"),
                            layer("Dense", units=10, activation="softmax")),
        "compile": {"optimizer": "adam", "loss": "sparse_categorical_crossentropy",
                    "metrics": ["accuracy"]},
        "data": {"train": fashion_mnist("train"), "validation": fashion_mnist("t10k")},
        "fit": {"epochs": 4}}))
    run("train", "run.json", "--save", "model.safetensors")
    run("evaluate", "model.safetensors", "--data", "run.json", "--report", "evaluation.html")
    return folder / "report.html", folder / "evaluation.html"


def main():
    if BROWSER is None:
        print("skipped: needs chromium")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        report, evaluation = make_pages(folder)
        if sys.argv[1:2] == ["--write"]:
            to = pathlib.Path(sys.argv[2]).resolve()
            draw(folder, report, to / "report_run.png", 1000, 640, dark=False)
            draw(folder, evaluation, to / "report_evaluation.png", 390, 760, dark=True)
            return
        for page in (report, evaluation):
            backgrounds = set()
            for width in WIDTHS:
                for dark in (False, True):
                    wide, window, height, charts, background = layout(folder, page, width, dark)
                    assert wide == window == width, (page.name, wide, window, width)
                    assert charts == (7 if page == report else 1), (page.name, charts)
                    backgrounds.add((dark, background))
                    png = draw(folder, page, folder / "page.png", width, height, dark)
                    assert len(png) > 20000, "something is drawn"
                    print("ok", page.name, width, "dark" if dark else "light", height, flush=True)
            assert len(backgrounds) == 2, backgrounds


if __name__ == "__main__":
    main()
