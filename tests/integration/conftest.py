from tests.support.unhurried import one_thread

__all__ = ["one_thread"]
