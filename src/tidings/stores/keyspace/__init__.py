"""The keyspace (Valkey or Redis): links, cluster, the embedded server, keys and scripts."""
