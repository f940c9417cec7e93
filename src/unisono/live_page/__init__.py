"""The live page of runs in a browser (`unisono watch RUN… --web`).

One thread reads the runs (`reader`), one hub holds what the page shows (`hub`), and every
browser gets what changed since it last heard (`server`). Drawing and words are the report's.
"""
