"""What runs beside torch and the user's code, always in a process of its own."""

NURSERY = "nursery"
"""The word that starts a process which forks children, instead of one of these."""
