"""A small DynamoDB client: signed requests over kept connections."""
