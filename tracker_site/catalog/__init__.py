"""Models the site offers: what clients call them, what they are made of, what they cost."""
