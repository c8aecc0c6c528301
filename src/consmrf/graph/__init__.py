"""Stage 1, triples in: labelled facts become ids, a frozen vocabulary and one partition D_r per relation."""
