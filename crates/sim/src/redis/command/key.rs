//! Commands on keys of any kind.

use super::{Context, Reply, Text, WrongKind};

pub fn del(context: &mut Context<'_>, keys: &[Text]) -> Result<Reply, WrongKind> {
    let removed = keys.iter().filter(|key| context.keys.remove(*key).is_some()).count();
    if removed == 0 {
        context.effect = None;
    }
    Ok(Reply::count(removed))
}

pub fn exists(context: &mut Context<'_>, keys: &[Text]) -> Result<Reply, WrongKind> {
    Ok(Reply::count(keys.iter().filter(|key| context.keys.contains_key(*key)).count()))
}
