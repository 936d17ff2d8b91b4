"""Keeping a plan balanced while the workload changes (PS2Stream, section V).

- `meter`: what workers and cells had to do lately, and when that is too uneven;
- `recent`, `pieces`: recent messages and the current rows, cell by cell, as a plan deals them;
- `rebalance`: which cells move to which worker;
- `text`: cells split by text, and merged again;
- `local`: a whole local adjustment;
- `change`: plans in which some cells belong to another worker;
- `versions`: plans that follow one another while their shards are kept;
- `replan`: a global adjustment, which is a new plan;
- `migration`: what has to be carried from worker to worker when one plan follows another.

Plans are never changed: an adjustment is a new plan with the next number.
"""
