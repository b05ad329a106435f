"""The wire contract: ``tandem/v1/*.proto`` and one committed copy of the stubs generated from them."""
