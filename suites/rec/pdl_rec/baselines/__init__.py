"""What needs no training: popularity, rules, neighbours."""
