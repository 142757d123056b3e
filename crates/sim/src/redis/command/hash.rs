//! Commands on hashes.

use std::collections::BTreeMap;

use super::super::data::{change, read};
use super::{Context, Reply, Text, WrongKind, number};

type Hash = BTreeMap<Text, Text>;

pub fn get(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |hash: &Hash| Reply::of(hash.get(&arguments[1])))
}

pub fn get_many(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |hash: &Hash| {
        Reply::Array(arguments[1..].iter().map(|field| Reply::of(hash.get(field))).collect())
    })
}

pub fn get_all(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |hash: &Hash| {
        let pairs = hash.iter().flat_map(|(field, value)| [field, value]);
        Reply::Array(pairs.map(|text| Reply::Bulk(text.clone())).collect())
    })
}

pub fn fields(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |hash: &Hash| {
        Reply::Array(hash.keys().map(|field| Reply::Bulk(field.clone())).collect())
    })
}

pub fn len(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |hash: &Hash| Reply::count(hash.len()))
}

pub fn exists(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |hash: &Hash| {
        Reply::count(usize::from(hash.contains_key(&arguments[1])))
    })
}

pub fn set(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let (pairs, rest) = arguments[1..].as_chunks::<2>();
    if !rest.is_empty() {
        let text = "ERR wrong number of arguments for 'hset' command";
        return Ok(Reply::Error(text.to_string()));
    }
    change(context.keys, &arguments[0], |hash: &mut Hash| {
        let mut set = |[field, value]: &[Text; 2]| hash.insert(field.clone(), value.clone());
        Reply::count(pairs.iter().filter(|pair| set(pair).is_none()).count())
    })
}

pub fn set_new(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let [key, field, value] = arguments else { return Ok(Reply::syntax()) };
    let is_new = change(context.keys, key, |hash: &mut Hash| match hash.contains_key(field) {
        true => false,
        false => hash.insert(field.clone(), value.clone()).is_none(),
    })?;
    if !is_new {
        context.effect = None;
    }
    Ok(Reply::count(usize::from(is_new)))
}

pub fn del(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let removed = change(context.keys, &arguments[0], |hash: &mut Hash| {
        arguments[1..].iter().filter(|field| hash.remove(*field).is_some()).count()
    })?;
    if removed == 0 {
        context.effect = None;
    }
    Ok(Reply::count(removed))
}

pub fn increment(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let [key, field, by] = arguments else { return Ok(Reply::syntax()) };
    let Some(by) = number::<i64>(by) else {
        return Ok(Reply::Error("ERR value is not an integer or out of range".to_string()));
    };
    change(context.keys, key, |hash: &mut Hash| {
        let known = hash.get(field).map_or(Some(0), |value| number(value));
        let Some(sum) = known.and_then(|known: i64| known.checked_add(by)) else {
            return Reply::Error("ERR hash value is not an integer".to_string());
        };
        hash.insert(field.clone(), sum.to_string().into_bytes());
        Reply::Number(sum)
    })
}
