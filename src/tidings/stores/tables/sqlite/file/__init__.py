"""The SQLite file: how it is opened, migrated, copied and examined."""
