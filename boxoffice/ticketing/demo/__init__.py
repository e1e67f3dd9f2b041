"""Demo houses worth looking at: seat maps, a programme by date, and seats sold already."""
