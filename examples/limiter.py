"""The rate limiter on its own: ten people share an exact budget of 20 requests in 10 seconds, over one Redis.

python examples/limiter.py redis://localhost:6379
"""

from __future__ import annotations

import asyncio
import sys

from tidings.limiter import Limiter


async def main(url: str) -> None:
    async with Limiter(url, "20/10s") as limiter:
        verdicts = await asyncio.gather(*(limiter.admit("the-shared-budget") for _ in range(200)))
        print(f"{sum(map(bool, verdicts))} of {len(verdicts)} passed")
        verdict = await limiter.admit("the-shared-budget")
        print(f"the next one may pass in {verdict.retry_after_ms} ms")
        print(f"somebody else has {(await limiter.peek('another')).remaining} left")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379"))
