"""Readers under atheris, which follows the coverage: ``python -m tests.fuzz.guided "HLO text" -runs=100000``.

Findings are those of `test_readers`: an exception that the reader does not document ends the run, and libFuzzer keeps
the input in a file.
"""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(include=["strided"]):
    from tests.fuzz import test_readers
    from tests.fuzz.mutation import LONGEST, WORDS, mangled
    from tests.fuzz.readers import READERS


def main() -> None:
    name = sys.argv.pop(1)
    reader = READERS[name]
    seeds = [seed[:LONGEST] for seed in reader.seeds()]

    def one(data: bytes) -> None:
        test_readers.read(reader, data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        # libFuzzer knows bytes; every other input is changed by our own hand, which knows words and seeds.
        if seed % 2:
            return bytes(atheris.Mutate(data, max_size))
        rng = random.Random(seed)
        return mangled(data or rng.choice([*seeds, *WORDS]), seeds, rng)[:max_size]

    atheris.Setup([sys.argv[0], f"-max_len={LONGEST}", *sys.argv[1:]], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
