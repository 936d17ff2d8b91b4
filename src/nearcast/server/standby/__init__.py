"""A second server that follows the first, commit by commit, and can take its place."""
