"""What stored runs say: regret, violation, intervals, growth exponents, bounds, and the paper's claims.

from psconrl.analysis.claims import claims
from psconrl.analysis.groups import group
from psconrl.experiments import Store

store = Store("results")
groups = group(store.records(), store.timings())     # the runs of each cell, stacked
rows = claims(groups)                                # the paper's claims with verdicts
"""
