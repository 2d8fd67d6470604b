"""Demo data: the desk of a team that supports Tessera, an imaginary workspace product for companies."""
