"""Push services: the port, and an adapter for each of APNs, FCM and Web Push."""
