"""The whole of Tandem on one machine: which processes, how they find each other, how they are run."""
