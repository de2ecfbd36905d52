"""Appending to the log on DynamoDB: transactions, duplicates and heads."""
