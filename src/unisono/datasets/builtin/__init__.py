"""The built-in corpus: English to German sentence pairs from a small grammar."""
