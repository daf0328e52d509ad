"""For pytest: the fixture `sabot_inject`, faults that last as long as a test.

A factory with the arguments of `sabot.inject`; each fault is armed at once and withdrawn at the end
of the test, which fails if one was required and never fired. Opens no library before its first use,
so that a test suite that does not inject does not notice the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest

from sabot import faults


@pytest.fixture
def sabot_inject() -> Iterator[Callable[..., faults.Injection]]:
    """Arms a fault until the end of the test: sabot_inject("AllReduce", nth=2, error=…)."""
    armed: list[faults.Injection] = []

    def inject(*arguments: Any, **words: Any) -> faults.Injection:
        armed.append(faults.inject(*arguments, **words).arm())
        return armed[-1]

    yield inject
    # All are withdrawn before the first is judged, so that no fault outlives its test.
    for injection in reversed(armed):
        injection.withdraw()
    silent = [injection for injection in armed if injection.required and not injection.fired]
    if silent:
        silent[0].check()
