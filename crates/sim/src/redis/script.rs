//! Lua scripts: loaded by their source, called by their digest.
//!
//! Values change their types on the way as Redis documents it: a number of Lua loses its fraction,
//! a table ends at its first `nil`, and no value is `false`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Error, Function, IntoLua, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::state::State;
use super::{Reply, Text};

/// The scripts of a server.
pub struct Scripts {
    /// The interpreter, once a script is loaded.
    lua: Option<Interpreter>,
    loaded: BTreeMap<Text, Function>,
}

struct Interpreter {
    lua: Lua,
    /// The state of the server while a script runs.
    state: Rc<RefCell<State>>,
}

/// An error reply that ends a script.
#[derive(Debug)]
struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Scripts {
    /// Returns no script.
    pub fn new() -> Scripts {
        Scripts { lua: None, loaded: BTreeMap::new() }
    }

    /// Loads a script. Returns its digest.
    pub fn load(&mut self, source: &[u8]) -> Reply {
        let digest = match std::str::from_utf8(source) {
            Ok(text) => redis::Script::new(text).get_hash().as_bytes().to_vec(),
            Err(_) => return Reply::Error("ERR the script is not UTF-8".to_string()),
        };
        if self.loaded.contains_key(&digest) {
            return Reply::Bulk(digest);
        }
        let loaded = match &self.lua {
            Some(interpreter) => interpreter.lua.load(source).into_function(),
            None => Interpreter::new().and_then(|new| {
                let interpreter = self.lua.insert(new);
                interpreter.lua.load(source).into_function()
            }),
        };
        match loaded {
            Ok(function) => {
                self.loaded.insert(digest.clone(), function);
                Reply::Bulk(digest)
            }
            Err(error) => Reply::Error(format!("ERR Error compiling script: {}", line(&error))),
        }
    }

    /// Calls a script: `rest` is the number of keys, the keys, and the arguments.
    pub fn run(&self, state: &mut State, digest: &[u8], rest: &[Text]) -> Reply {
        let (Some(script), Some(interpreter)) = (self.loaded.get(digest), &self.lua) else {
            let text = "NOSCRIPT No matching script. Please use EVAL.";
            return Reply::Error(text.to_string());
        };
        let parts = rest.split_first().and_then(|(count, rest)| {
            rest.split_at_checked(std::str::from_utf8(count).ok()?.parse().ok()?)
        });
        let Some((keys, arguments)) = parts else {
            let text = "ERR Number of keys can't be greater than number of args";
            return Reply::Error(text.to_string());
        };
        interpreter.state.swap(&RefCell::new(std::mem::take(state)));
        let ran = interpreter.call(script, keys, arguments);
        *state = interpreter.state.take();
        ran.unwrap_or_else(|error| match refused(&error) {
            Some(Refused(text)) => Reply::Error(text.clone()),
            None => Reply::Error(format!("ERR {}", line(&error))),
        })
    }
}

impl Interpreter {
    fn new() -> mlua::Result<Interpreter> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let state: Rc<RefCell<State>> = Rc::default();
        let redis = lua.create_table()?;
        for (name, raises) in [("call", true), ("pcall", false)] {
            let state = state.clone();
            let call = lua.create_function(move |lua, arguments: MultiValue| {
                let command = arguments.iter().map(argument).collect::<mlua::Result<Vec<_>>>()?;
                let reply = {
                    let mut state = state.borrow_mut();
                    let before = state.effects.len();
                    let reply = state.call(&command);
                    state.has_written |= before < state.effects.len();
                    reply
                };
                match reply {
                    Reply::Error(text) if raises => Err(Error::external(Refused(text))),
                    reply => into_lua(lua, reply),
                }
            })?;
            redis.set(name, call)?;
        }
        lua.globals().set("redis", redis)?;
        Ok(Interpreter { lua, state })
    }

    fn call(&self, script: &Function, keys: &[Text], arguments: &[Text]) -> mlua::Result<Reply> {
        let globals = self.lua.globals();
        globals.set("KEYS", self.texts(keys)?)?;
        globals.set("ARGV", self.texts(arguments)?)?;
        from_lua(script.call(())?)
    }

    fn texts(&self, texts: &[Text]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(texts.len(), 0)?;
        for text in texts {
            table.raw_push(self.lua.create_string(text)?)?;
        }
        Ok(table)
    }
}

fn argument(value: &Value) -> mlua::Result<Text> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        // As `%.17g` for whole numbers below 2^53; the scripts format others themselves.
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => Err(Error::external(Refused(
            "ERR Lua redis lib command arguments must be strings or integers".to_string(),
        ))),
    }
}

fn into_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let tagged = |name: &str, text: &str| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Number(number) => number.into_lua(lua),
        Reply::Status(status) => tagged("ok", status),
        Reply::Error(text) => tagged("err", &text),
        Reply::Bulk(bytes) => Ok(Value::String(lua.create_string(&bytes)?)),
        Reply::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(into_lua(lua, item)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

fn from_lua(value: Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Number(number),
        Value::Number(number) => Reply::Number(number as i64),
        Value::Boolean(true) => Reply::Number(1),
        Value::Table(table) => {
            if let Some(text) = table.raw_get::<Option<String>>("err")? {
                return Ok(Reply::Error(text));
            }
            if table.raw_get::<Option<String>>("ok")?.is_some() {
                return Ok(Reply::OK);
            }
            let mut items = Vec::new();
            for at in 1.. {
                match table.raw_get::<Value>(at)? {
                    Value::Nil => break,
                    item => items.push(from_lua(item)?),
                }
            }
            Reply::Array(items)
        }
        _ => Reply::Nil,
    })
}

/// Returns the error reply that ended a script, if one did.
fn refused(error: &Error) -> Option<&Refused> {
    match error {
        Error::CallbackError { cause, .. } => refused(cause),
        Error::ExternalError(error) => error.downcast_ref(),
        _ => None,
    }
}

fn line(error: &Error) -> String {
    error.to_string().replace(['\r', '\n'], " ")
}
