"""Archives of others, read without trusting them: only named members, in bounded amounts."""
