"""The names of pdl_nlp: `pdl_nlp` exports all that this module imports, on first use."""
