"""What both ends of a connection, the client library and the service, do with sockets alike."""
