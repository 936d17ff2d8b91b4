"""Keeping a plan balanced while the workload changes (PS2Stream, section V).

- `meter`: what workers and cells had to do lately, and when that is too uneven;
- `recent`, `pieces`: recent messages and the rows that stand, cell by cell, as a plan deals them;
- `select`: which cells to move, by the paper's DP and GR and by its baselines SI and RA;
- `evening`: which cells to move where, by ours;
- `text`: cells split by text, and merged again;
- `local`, `paper`: a local adjustment whole, ours and the paper's;
- `control`: when to make one, stage by stage;
- `replan`, `eras`: a global adjustment: a new plan, beside the old one until that is retired;
- `migration`: what has to be carried from worker to worker when one plan follows another.

Plans are never changed: an adjustment is a new plan with the next number, and a `Migration` to it.
"""
