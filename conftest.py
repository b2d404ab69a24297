"""Settings that all tests share: how many examples hypothesis tries, and where the Hub is.

`default` is for every run; `--hypothesis-profile=nightly` tries many more.
"""

from __future__ import annotations

import os
import socket

from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile("default", max_examples=300, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile("nightly", max_examples=20_000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile("default")

# No test talks to the real Hub: `huggingface_hub` reads this when imported, and `tests/loopback_hub.py` listens there.
with socket.create_server(("127.0.0.1", 0)) as _free:
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{_free.getsockname()[1]}"
