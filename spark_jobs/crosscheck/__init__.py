"""Brokers' own metrics of client quotas beside what their logs say: no files, no clock."""
