"""REST and pages: each module holds the routes of one noun."""
