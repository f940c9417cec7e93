"""Virtual machines of this one, joined by shaped links: to learn, to rehearse, to measure."""
