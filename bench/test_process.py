"""Test the measuring of processes: python3 -m unittest discover -s bench"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import harness
import process


@unittest.skipUnless(os.path.exists("/proc/self/syscall"), "no /proc/PID/syscall")
class Measured(unittest.TestCase):
    script = f"""#!{sys.executable}
held = bytearray(b"1" * (48 << 20))
held = held[:16 << 20]
print('{{"times_ms": {{"prepare": 2.5, "step": 0.5}}}}', flush=True)
held = b"2" * (256 << 20)
"""

    def ours(self, script):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(process, "REST", 0):
            binary = pathlib.Path(folder, "binary")
            binary.write_text(script, encoding="utf-8")
            binary.chmod(0o755)
            return process.ours(binary, pathlib.Path(folder, "planned.onnx"), {"total": 12}, 1)

    def test_read_while_it_waits_for_its_reader(self):
        found = self.ours(self.script)
        self.assertEqual((found["total"], found["start_ms"], found["step_ms"]), (12, 2.5, 0.5))
        self.assertTrue(48 * harness.MIB < found["peak"] < 200 * harness.MIB, found)  # not what comes behind the result
        self.assertTrue(16 * harness.MIB < found["rest"] < found["peak"] - 16 * harness.MIB, found)

    def test_a_process_that_fails(self):
        with self.assertRaisesRegex(SystemExit, "exit 3: refused"):
            self.ours("#!/bin/sh\necho refused >&2\nexit 3\n")


class Marked(unittest.TestCase):
    def test_words_and_status(self):
        def sizes(total, peak, estimate=1000):
            return {"total": total * harness.MIB, "peak": peak * harness.MIB, "estimate": estimate * harness.MIB}

        for us, theirs, words in (
            (sizes(10, 10 + process.PROMISE_MIB), 100, ""),
            (sizes(10, 11 + process.PROMISE_MIB), 100, "the promise"),
            (sizes(90, 101), 100, "theirs"),
            (sizes(10, 101), 100, "the promise, theirs"),
            (sizes(10, 101), None, "the promise"),
            (sizes(90, 99, estimate=98), 100, "the estimate"),
        ):
            seen = process.Worst()
            self.assertEqual(seen.add("x", us, theirs and {"peak": theirs * harness.MIB}, "theirs"), words)
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(seen.say("theirs"), not words)
            self.assertRegex(said.getvalue(), r"1 processes: .* \(x\)")


if __name__ == "__main__":
    unittest.main()
