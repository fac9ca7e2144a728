"""Pictures made of others."""
