"""Settings that all tests share: `ci` (the default) tries the same examples each time, `search` many new ones.

pytest --hypothesis-profile=search tests/test_laws.py
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, max_examples=200)
settings.register_profile(
    "search", deadline=None, print_blob=True, max_examples=5000, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile("ci")
