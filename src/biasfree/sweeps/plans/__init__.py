"""The plans that come with the package."""
