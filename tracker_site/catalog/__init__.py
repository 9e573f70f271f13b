"""Models that the site offers: their names for clients, their artifacts and their prices."""
