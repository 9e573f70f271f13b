"""The models that the site offers: their names for clients, their artifacts (GGUF files) and their prices."""
