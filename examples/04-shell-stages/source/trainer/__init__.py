"""What the recipe's stages call."""
