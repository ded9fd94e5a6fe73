"""What stored runs say: regret, violation, intervals, growth exponents, bounds, and the paper's claims."""
