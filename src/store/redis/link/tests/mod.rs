//! Links against real servers.
