"""For readers: what fits and evaluations found, as text, JSON, pictures and self-contained pages."""
