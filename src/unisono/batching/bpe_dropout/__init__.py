"""BPE-dropout: words segmented in other pieces than usual, by chance."""
