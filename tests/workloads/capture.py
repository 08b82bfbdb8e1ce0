"""Runs the tests of workloads/capture with pytest; exits 77 (CTest: skipped) where a package that they need is missing."""

import sys

try:
    import pytest
    import safetensors  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1]]))
