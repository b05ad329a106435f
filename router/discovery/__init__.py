"""Where the replicas are: from the configuration, from DNS, or from Kubernetes."""
