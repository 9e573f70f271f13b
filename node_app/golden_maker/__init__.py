"""`meshnet probe`: computes a model's golden probe, loading one range of layers after the other.

Source: docs/adr/0019.
"""
