"""Reads the trainer's --sample-log: which samples the steps used that are in the final parameters."""

import json
import os


class Audit:
    """The content of a finished training's sample logs: see trainer/extras/sample_log.h."""

    def __init__(self):
        self.generations = []
        self.steps_taken = 0  # Repeated ones each time.
        self.epochs = {}  # Epoch -> its samples, in the steps that count.


def audit_samples(directory):
    """Steps that a later generation took again count as that one took them."""
    audit = Audit()
    by_generation = {}
    for name in os.listdir(directory):
        generation = int(name.removeprefix("generation-").split(".")[0])
        with open(os.path.join(directory, name)) as file:
            lines = [json.loads(line) for line in file.read().splitlines(keepends=False) if line]
        by_generation.setdefault(generation, []).append(lines)
    counts = {}  # Step -> (epoch, samples of all ranks)
    for generation in sorted(by_generation):
        ranks = by_generation[generation]
        audit.generations.append(generation)
        audit.steps_taken += max(len(lines) for lines in ranks)
        first = min((lines[0]["step"] for lines in ranks if lines), default=None)
        if first is None:
            continue
        for step in [s for s in counts if s >= first]:
            del counts[step]
        for lines in ranks:
            for line in lines:
                epoch, samples = counts.setdefault(line["step"], (line["epoch"], []))
                assert epoch == line["epoch"], line
                samples.extend(line["samples"])
    assert sorted(counts) == list(range(1, len(counts) + 1)), "a step is missing"
    for epoch, samples in counts.values():
        audit.epochs.setdefault(epoch, []).extend(samples)
    return audit
