#!/usr/bin/python3
"""Write reference.json: what others' implementations say of some pairs of judgements.

Kappa is scikit-learn's, ICC(3,1) that of R's package psych, quantiles are NumPy's. Debian: python3-sklearn, r-cran-psych.
"""

import json
import math
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
from sklearn.metrics import cohen_kappa_score

warnings.simplefilter("ignore")
RESAMPLES = 2000
MASK = (1 << 64) - 1
ICC = """
suppressMessages(library(psych))
of <- function(a, b) {
  if (length(a) < 2 || (sd(a) == 0 && sd(b) == 0)) return(NA)
  suppressWarnings(ICC(cbind(a, b), lmer = FALSE)$results["Single_fixed_raters", "ICC"])
}
rows <- readLines(file("stdin"))
for (row in rows) {
  parts <- strsplit(row, " ")[[1]]
  n <- length(parts) / 2
  cat(sprintf("%.17g\\n", of(as.numeric(parts[1:n]), as.numeric(parts[(n + 1):(2 * n)]))))
}
"""


def draws(n):
    """Indexes of each resample, by SplitMix64 from the seed 1."""
    state = 1
    out = np.empty((RESAMPLES, n), dtype=int)
    for r in range(RESAMPLES):
        for i in range(n):
            state = (state + 0x9E3779B97F4A7C15) & MASK
            z = state
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            out[r, i] = (z ^ (z >> 31)) % n
    return out


def icc(samples):
    """ICC(3,1) of many samples, by R."""
    text = "\n".join(" ".join(str(v) for v in (*a, *b)) for a, b in samples)
    with tempfile.NamedTemporaryFile("w", suffix=".R") as script:
        script.write(ICC)
        script.flush()
        out = subprocess.run(["Rscript", script.name], input=text + "\n", capture_output=True, text=True, check=True).stdout
    return [float(line) if line != "NA" else math.nan for line in out.split()]


def figure(value, resampled):
    if math.isnan(value):
        return None
    kept = [v for v in resampled if not math.isnan(v)]
    low, high = np.percentile(kept, [2.5, 97.5])
    return {"value": value, "low": low, "high": high}


def report(a, b, levels):
    a, b = np.array(a), np.array(b)
    index = draws(len(a))
    samples = [(a[i], b[i]) for i in index]
    labels = list(range(levels))
    functions = {
        "exact": lambda x, y: float(np.mean(x == y)),
        "within_one": lambda x, y: float(np.mean(np.abs(x - y) <= 1)),
        "kappa": lambda x, y: float(cohen_kappa_score(x, y, labels=labels, weights="quadratic")),
        "bias": lambda x, y: float(np.mean(y - x)),
    }
    out = {name: figure(f(a, b), [f(x, y) for x, y in samples]) for name, f in functions.items()}
    every = icc([(a, b), *samples])
    out["icc"] = figure(every[0], every[1:])
    out["pairs"] = len(a)
    return out


CASES = {
    "mostly alike": ([2, 2, 1, 0, 2, 1, 1, 2, 0, 2], [2, 2, 1, 0, 1, 1, 2, 2, 0, 2], 3),
    "the model is mild": ([0, 1, 1, 2, 0, 1, 2, 0], [1, 2, 2, 2, 1, 1, 2, 1], 3),
    "opposed": ([0, 0, 2, 2, 1, 0], [2, 2, 0, 0, 1, 2], 3),
    "one level only, of one": ([2, 2, 2, 2, 2], [2, 1, 2, 2, 0], 3),
    "one level only, of both": ([1, 1, 1, 1], [1, 1, 1, 1], 3),
    "five levels": ([4, 3, 2, 1, 0, 4, 2, 3, 1, 0, 2, 4], [4, 3, 3, 1, 1, 4, 1, 3, 0, 0, 2, 3], 5),
    "two of them": ([0, 2], [1, 2], 3),
}

if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    out = [{"name": name, "a": a, "b": b, "levels": levels, "want": report(a, b, levels)} for name, (a, b, levels) in CASES.items()]
    (here / "reference.json").write_text("[\n" + ",\n".join(map(json.dumps, out)) + "\n]\n")
