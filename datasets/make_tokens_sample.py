#!/usr/bin/env python3
"""Write tokens_sample.jsonl: two tenants, the same system prompt, short chats.

The tokens are numbers out of a small generator, not text; the file is the same
on every machine.  Usage: make_tokens_sample.py > tokens_sample.jsonl
"""
import json


def numbers(seed):
    """A plain 64-bit linear congruential generator, upper bits."""
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def tokens(stream, n):
    return [next(stream) % 129280 for _ in range(n)]


def main():
    stream = numbers(2)
    system = tokens(stream, 150)
    rows = []
    # Both tenants start from the same tokens and must not share a page.
    for tenant in ("tenant-a", "tenant-b"):
        for chat in range(3):
            history = list(system)
            for turn in range(3):
                history += tokens(stream, 20 + 13 * chat + 7 * turn)
                answer = tokens(stream, 5 + 3 * turn + chat)
                at = 4000 * turn + 700 * chat + (350 if tenant[-1] == "b" else 0)
                rows.append({"timestamp": at, "namespace": tenant,
                             "output_length": len(answer),
                             "prompt_token_ids": list(history)})
                history += answer
    rows.sort(key=lambda row: row["timestamp"])
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
