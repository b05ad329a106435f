"""What drafted text must be: blocks are cut where it is not, before the target looks at them.

Nothing here but ``vetting`` and ``client`` is loaded by the service itself: validators run in a process of
their own, ``worker``.
"""
