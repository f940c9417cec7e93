"""Commands that read runs, checkpoints and bundles: none of them trains."""
