"""What runs beside torch and the user's code, always in a process of its own."""
