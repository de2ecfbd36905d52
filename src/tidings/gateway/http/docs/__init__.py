"""The API as documents: OpenAPI, AsyncAPI and the page that shows them."""
