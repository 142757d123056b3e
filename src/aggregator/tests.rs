//! The aggregator over the memory store, with the clock paused.
