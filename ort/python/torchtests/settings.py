"""What a run of these tests covers, and what it found."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .test_networks import Row

#: The tests of the subset: about a minute of processor time.
SUBSET = {
    "test_networks.TestKernels.test_transformers_gpt2",
    "test_networks.TestKernels.test_timm_test_resnet",
    "test_networks.TestInductor.test_transformers_clip",
    "test_steps.TestSteps.test_autocast_inside",
    "test_steps.TestSteps.test_buffers_that_are_written",
    "test_steps.TestSteps.test_random_numbers",
    "test_steps.TestSteps.test_views_as_results",
    "test_steps.TestFallbacks.test_an_impossible_limit",
    "test_steps.TestFallbacks.test_no_command",
}

subset = False
rows: "list[Row]" = []


def limits() -> tuple[str, ...]:
    """Return the limits that each network is planned for."""
    return ("60%",) if subset else ("80%", "60%", "40%")
