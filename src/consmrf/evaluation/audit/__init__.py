"""What is odd about the data: relations that repeat each other, held-out facts that training gives away."""
