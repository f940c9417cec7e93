"""Logs and settings of OpenSeq2Seq, which trained the runs in the field."""
