"""Runs the specs for Hopper that carry a maximum on this machine's GPU: parts of rows are -inf, scores beyond 1e36.

Prints what is not right: a process that can be ended.

    PYTHONPATH=.:tests/loops python3 tests/hopper/maxima_on_gpu.py
"""

from __future__ import annotations

from maxima import SPECS, target_of, wrong


def main() -> None:
    count = 0
    for name in SPECS:
        for kind in ("-inf", "large") if target_of(name) == "sm_90a" else ():
            count += 1
            if found := wrong(name, kind, "cuda"):
                print(f"WRONG {kind} {name}: {'; '.join(found)}", flush=True)
    print(f"{count} launches compared", flush=True)


if __name__ == "__main__":
    main()
