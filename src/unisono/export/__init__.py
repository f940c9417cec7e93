"""Exports: a bundle for other engines, with a proof that it translates as before."""
