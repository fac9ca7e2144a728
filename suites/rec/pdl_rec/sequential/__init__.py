"""Which item comes next in a session."""
