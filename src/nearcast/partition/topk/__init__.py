"""Who gets which top-k subscriptions and which messages (DSkype: Skype, VLDB J., section 7.3).

A *mechanism* (`mechanisms`) makes a `Spread` from a sample. `placing` says by it which workers hold
a subscription and under which of its terms, which workers a message goes to, and which of several
workers that have both answers for the pair. How it does on a population
is simulated in the laboratory.
"""
