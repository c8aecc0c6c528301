"""Stage 2, the method.

Algorithms 1 and 2 of the paper on the exact sparse state; knows no threads, files or HTTP.
"""
