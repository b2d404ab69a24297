"""What is tried again, how often, and after how long.

Invariant: what fails for a reason that will not pass is not tried again. Bound: `Patience.attempts`.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
_SPENT = re.compile(r";\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and after how long, something is tried again that failed for a passing reason.

    Attributes:
        attempts: tries in all.
        first: the longest wait before the second try, in seconds; it doubles with each further try. What is really
            waited is drawn between a half of it and all of it, so that several runs don't knock at the same time.
        longest: no wait is longer, in seconds, also if the server asks for more.
        sleep: what waits, given seconds; None for `time.sleep` (in a campaign, a wait that `stop` ends).
    """

    attempts: int = 6
    first: float = 1.0
    longest: float = 300.0
    sleep: Callable[[float], object] | None = None

    def wait(self, attempt: int, asked: float | None) -> None:
        """Wait after the try number `attempt` (from 1); at least as long as the server `asked`."""
        own = min(self.longest, self.first * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
        sleep = time.sleep if self.sleep is None else self.sleep
        sleep(min(self.longest, max(own, asked or 0.0)))

    def persist(self, call: Callable[[], T], worth: Callable[[Exception], bool] | None = None) -> T:
        """What `call` returns; raises what it raised last, or at once if trying again is of no use.

        `worth` says after which errors it is; by default after passing ones (`is_transient`).
        """
        attempt = 1
        while True:
            try:
                return call()
            except Exception as error:
                if attempt >= self.attempts or not (worth or is_transient)(error):
                    raise
                self.wait(attempt, retry_after(error))
            attempt += 1


def is_transient(error: BaseException) -> bool:
    """True if trying again may help: a rate limit, a server's fault, a connection that failed or was cut off."""
    if getattr(error, "transient", False):
        return True
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return status in (408, 425, 429) or status >= 500
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    # What the HTTP libraries raise (requests, httpx, httpx2) has no common base, and a body that was cut off shows as
    # one of theirs, or as JSON that ends too soon.
    modules = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    return bool(modules & {"requests", "httpx", "httpx2", "httpcore", "urllib3"}) or isinstance(
        error, json.JSONDecodeError
    )


def retry_after(error: Any) -> float | None:
    """How long the server asked to wait, in seconds: an error's (or a result's) `retry_after`, or by the headers.

    Source: RFC 9110 on Retry-After (a date is not read; the own wait has to do), and the draft on RateLimit headers,
    of which the Hub sends `RateLimit: "api";r=0;t=55`.
    """
    asked = getattr(error, "retry_after", None)
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    limit = _SPENT.search(headers.get("RateLimit", ""))
    for value in (asked, headers.get("Retry-After"), limit[1] if limit else None):
        with contextlib.suppress(ValueError):
            if value is not None:
                return float(value)
    return None
