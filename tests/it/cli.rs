//! The command line against the real server.
