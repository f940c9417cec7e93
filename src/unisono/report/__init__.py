"""A diagnosis as a page, as Markdown, as JSON and as text for a terminal."""
