//! Commands on sorted sets. Scores are whole numbers, as those of the store are.

use super::super::data::{SortedSet, change, read};
use super::{Context, Reply, Text, WrongKind, number};

pub fn add(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let (pairs, rest) = arguments[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Ok(Reply::syntax());
    }
    let scored: Option<Vec<(u64, &Text)>> =
        pairs.iter().map(|[score, member]| Some((number(score)?, member))).collect();
    let Some(scored) = scored else {
        return Ok(Reply::Error("ERR value is not a valid float".to_string()));
    };
    change(context.keys, &arguments[0], |set: &mut SortedSet| {
        let added = scored.into_iter();
        let added =
            added.filter(|(score, member)| set.members.insert((*member).clone(), *score).is_none());
        Reply::count(added.count())
    })
}

pub fn len(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |set: &SortedSet| Reply::count(set.members.len()))
}

pub fn remove(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let removed = change(context.keys, &arguments[0], |set: &mut SortedSet| {
        arguments[1..].iter().filter(|member| set.members.remove(*member).is_some()).count()
    })?;
    if removed == 0 {
        context.effect = None;
    }
    Ok(Reply::count(removed))
}

pub fn pop_min(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let popped = change(context.keys, &arguments[0], SortedSet::pop_min)?;
    let Some((member, score)) = popped else {
        context.effect = None;
        return Ok(Reply::Array(Vec::new()));
    };
    let score = score.to_string().into_bytes();
    Ok(Reply::Array(vec![Reply::Bulk(member), Reply::Bulk(score)]))
}
