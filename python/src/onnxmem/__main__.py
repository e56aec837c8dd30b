"""Run the native command: ``python -m onnxmem optimize in.onnx out.onnx``."""

import os
import subprocess
import sys

from ._command import command


def main() -> int:
    """Run the command with the arguments of this process; return its exit status."""
    line = [command(), *sys.argv[1:]]
    if os.name == "nt":
        return subprocess.run(line, check=False).returncode
    os.execv(line[0], line)


if __name__ == "__main__":
    sys.exit(main())
