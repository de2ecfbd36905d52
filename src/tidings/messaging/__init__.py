"""Messaging: the meaning of every command, one room for each idea.

Read send first (the way of a message, stage by stage), then deliver. `access` decides who may do what. conversations,
unread and reading hold what a member sees; unread also rebuilds the index after it was lost.
"""
