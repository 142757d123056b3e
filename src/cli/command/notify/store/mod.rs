//! What outlives the process: which receivers know of which problems, in the data of an
//! application, and the lease under which one process at a time writes them.

pub mod lease;
pub mod shards;
