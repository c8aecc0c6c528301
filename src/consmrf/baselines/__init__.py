"""What the method is compared with; every baseline goes through the same interface as the method itself."""
