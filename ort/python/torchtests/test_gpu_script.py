"""bench/gpu/steps_torch.py, as far as it runs without a GPU. How to run: test_equal.py."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[3] / "bench" / "gpu" / "steps_torch.py"


class Script(unittest.TestCase):
    def run_script(self, folder: str, *flags: str) -> tuple[list[dict[str, Any]], str]:
        """Return the rows that were printed, and the table."""
        table = Path(folder, "steps.md")
        line = [sys.executable, str(SCRIPT), "--device", "cpu", "--small", "--networks", "gpt2", "--out", str(table), *flags]
        done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
        return [json.loads(row) for row in done.stdout.splitlines()], table.read_text(encoding="utf-8")

    def test_rows(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            rows, table = self.run_script(folder, "--precisions", "bf16", "--backends", "aot_eager")
        self.assertEqual([(r["network"], r["precision"], r["way"], "error" in r) for r in rows], [("gpt2", "bf16", w, False) for w in ("min-cut", "limit 70%")])
        self.assertGreater(rows[1]["planned_mib"], 0)
        for r in rows:
            self.assertIn(f"| gpt2 | bf16 | aot_eager | {r['way']} |", table)

    def test_time_is_over(self) -> None:
        """What has not come in time is left out, and there is a table."""
        with tempfile.TemporaryDirectory() as folder:
            rows, table = self.run_script(folder, "--minutes", "0")
        self.assertEqual(rows, [])
        self.assertIn("| network | precision |", table)


if __name__ == "__main__":
    unittest.main()
