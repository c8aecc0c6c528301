"""Stage 5, is it any good: two protocols, metrics with bounds and intervals, ranks to recompute them."""
