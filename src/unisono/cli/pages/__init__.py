"""What commands show on a terminal: pages, tables and progress."""
