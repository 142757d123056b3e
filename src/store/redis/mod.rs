//! Redis or Valkey as the store: many replicas of ours, one truth.

pub mod link;

#[cfg(test)]
pub mod testing;
