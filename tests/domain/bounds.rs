//! Single cases at the edges, each of which was wrong once or would be easy to get wrong.
