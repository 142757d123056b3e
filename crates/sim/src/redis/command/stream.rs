//! Commands on streams.

use std::ops::Bound;

use super::super::data::{EntryId, Keyspace, Stream, change, read};
use super::{Context, Reply, Text, WrongKind, number};

/// What a trim keeps.
#[derive(Clone, Copy)]
enum Keep {
    /// This many of the newest entries.
    Count(usize),
    /// Entries from this id on.
    From(EntryId),
}

impl Keep {
    /// Parses `MAXLEN|MINID [=|~] VALUE` at the begin of the arguments. Returns what follows.
    /// Redis removes whole nodes if the limit is not exact; this one removes as much as it may.
    fn parse(arguments: &[Text]) -> Option<(Keep, &[Text])> {
        let (kind, mut rest) = arguments.split_first()?;
        if rest.first().is_some_and(|sign| sign == b"~" || sign == b"=") {
            rest = &rest[1..];
        }
        let (value, rest) = rest.split_first()?;
        let keep = match kind.to_ascii_uppercase().as_slice() {
            b"MAXLEN" => Keep::Count(number(value)?),
            b"MINID" => Keep::From(EntryId::parse(value, 0)?),
            _ => return None,
        };
        Some((keep, rest))
    }

    fn apply(self, stream: &mut Stream) -> usize {
        let before = stream.entries.len();
        match self {
            Keep::Count(count) => {
                while count < stream.entries.len() {
                    stream.entries.pop_first();
                }
            }
            Keep::From(id) => stream.entries = stream.entries.split_off(&id),
        }
        before - stream.entries.len()
    }
}

pub fn add(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let key = &arguments[0];
    let (keep, rest) = match Keep::parse(&arguments[1..]) {
        Some((keep, rest)) => (Some(keep), rest),
        None => (None, &arguments[1..]),
    };
    let Some((wanted, fields)) = rest.split_first() else { return Ok(Reply::syntax()) };
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        let text = "ERR wrong number of arguments for 'xadd' command";
        return Ok(Reply::Error(text.to_string()));
    }
    let millis = context.millis;
    let last = read(context.keys, key, |stream: &Stream| stream.last)?;
    let id = match wanted.as_slice() {
        b"*" if last.0 < millis => EntryId(millis, 0),
        b"*" => EntryId(last.0, last.1 + 1),
        _ => match EntryId::parse(wanted, 0) {
            Some(id) if last < id => id,
            Some(_) => {
                let text = "ERR The ID specified in XADD is equal or smaller than the target \
                            stream top item";
                return Ok(Reply::Error(text.to_string()));
            }
            None => {
                let text = "ERR Invalid stream ID specified as stream command argument";
                return Ok(Reply::Error(text.to_string()));
            }
        },
    };
    change(context.keys, key, |stream: &mut Stream| {
        stream.entries.insert(id, fields.to_vec());
        stream.last = id;
        if let Some(keep) = keep {
            keep.apply(stream);
        }
    })?;
    if let Some(effect) = &mut context.effect {
        let at = effect.len() - fields.len() - 1;
        effect[at] = id.text();
    }
    Ok(Reply::Bulk(id.text()))
}

pub fn len(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    read(context.keys, &arguments[0], |stream: &Stream| Reply::count(stream.entries.len()))
}

pub fn trim(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    let Some((keep, [])) = Keep::parse(&arguments[1..]) else { return Ok(Reply::syntax()) };
    // A trim makes no stream.
    if !context.keys.contains_key(&arguments[0]) {
        context.effect = None;
        return Ok(Reply::Number(0));
    }
    let removed = change(context.keys, &arguments[0], |stream: &mut Stream| keep.apply(stream))?;
    if removed == 0 {
        context.effect = None;
    }
    Ok(Reply::count(removed))
}

pub fn range(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    entries_between(context, arguments, &arguments[1], &arguments[2], false)
}

pub fn range_back(context: &mut Context<'_>, arguments: &[Text]) -> Result<Reply, WrongKind> {
    entries_between(context, arguments, &arguments[2], &arguments[1], true)
}

fn entries_between(
    context: &mut Context<'_>,
    arguments: &[Text],
    from: &[u8],
    to: &[u8],
    is_back: bool,
) -> Result<Reply, WrongKind> {
    let count = match &arguments[3..] {
        [] => usize::MAX,
        [word, count] if word.eq_ignore_ascii_case(b"COUNT") => number(count).unwrap_or(0),
        _ => return Ok(Reply::syntax()),
    };
    let (Some(from), Some(to)) = (EntryId::parse(from, 0), EntryId::parse(to, u64::MAX)) else {
        let text = "ERR Invalid stream ID specified as stream command argument";
        return Ok(Reply::Error(text.to_string()));
    };
    let has_key = context.keys.contains_key(&arguments[0]);
    read(context.keys, &arguments[0], |stream: &Stream| {
        if count == 0 && has_key {
            return Reply::Nil;
        }
        if to < from {
            return Reply::Array(Vec::new());
        }
        let found = stream.entries.range(from..=to).map(entry);
        match is_back {
            true => Reply::Array(found.rev().take(count).collect()),
            false => Reply::Array(found.take(count).collect()),
        }
    })
}

fn entry((id, fields): (&EntryId, &Vec<Text>)) -> Reply {
    let fields = fields.iter().map(|text| Reply::Bulk(text.clone())).collect();
    Reply::Array(vec![Reply::Bulk(id.text()), Reply::Array(fields)])
}

/// What a reader of streams asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    count: usize,
    /// How long to wait for an entry, in milliseconds; 0 for ever, `None` not at all.
    pub wait: Option<u64>,
    /// Keys, each with the id after which it reads.
    after: Vec<(Text, EntryId)>,
}

/// Parses the arguments of `XREAD [COUNT n] [BLOCK ms] STREAMS key... id...`.
pub fn wanted(arguments: &[Text]) -> Option<Wanted> {
    let mut wanted = Wanted { count: usize::MAX, wait: None, after: Vec::new() };
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        if word.eq_ignore_ascii_case(b"STREAMS") {
            let (keys, ids) = after.split_at_checked(after.len() / 2)?;
            let ids: Option<Vec<EntryId>> = ids.iter().map(|id| EntryId::parse(id, 0)).collect();
            wanted.after = keys.iter().cloned().zip(ids?).collect();
            return (keys.len() * 2 == after.len() && !keys.is_empty()).then_some(wanted);
        }
        let (value, after) = after.split_first()?;
        match word.to_ascii_uppercase().as_slice() {
            b"COUNT" => wanted.count = number(value)?,
            b"BLOCK" => wanted.wait = Some(number(value)?),
            _ => return None,
        }
        rest = after;
    }
    None
}

/// Returns the entries that a reader asks for, by key; `None` if there is none.
pub fn read_after(keys: &mut Keyspace, wanted: &Wanted) -> Result<Option<Reply>, WrongKind> {
    let mut found = Vec::new();
    for (key, after) in &wanted.after {
        let entries: Vec<Reply> = read(keys, key, |stream: &Stream| {
            let newer = stream.entries.range((Bound::Excluded(after), Bound::Unbounded));
            newer.take(wanted.count).map(entry).collect()
        })?;
        if !entries.is_empty() {
            found.push(Reply::Array(vec![Reply::Bulk(key.clone()), Reply::Array(entries)]));
        }
    }
    Ok((!found.is_empty()).then_some(Reply::Array(found)))
}
