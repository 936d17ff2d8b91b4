"""Servers, stores, clients, webhooks, a network, disks and a clock in one process, by a seed.

The code of the servers is the real one. What is around it is simulated: time stands still while
something runs, threads run one at a time, and the network, the disks and the end of processes do
what a seeded random generator says. The same seed gives the same run.
"""
