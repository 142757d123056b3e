//! Expressions in CEL over an object: each of its fields is a variable.

use std::collections::HashMap;

use cel::objects::Key;
use cel::{Context, Program};
use serde_json::Value;

use crate::cli::command::import::kubernetes::object::Object;

/// Longest text of an error.
const ERROR_CHARS_MAX: usize = 200;

/// A parsed expression.
pub struct Expression {
    text: String,
    program: Program,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.text)
    }
}

/// The fields of an object as variables.
pub struct Variables(Vec<(String, cel::Value)>);

impl Variables {
    /// Returns the variables of an object.
    pub fn of(object: &Object) -> Variables {
        let fields = object.value().as_object().into_iter().flatten();
        Variables(fields.map(|(name, value)| (name.clone(), convert(value))).collect())
    }
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// The mistake in one line.
    pub fn parse(text: &str) -> Result<Expression, String> {
        let program = Program::compile(text).map_err(|error| in_a_line(&error.to_string()))?;
        Ok(Expression { text: text.to_string(), program })
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the truth of the expression.
    ///
    /// # Errors
    /// A field that is missing, or a result that is no truth.
    pub fn evaluate(&self, variables: &Variables) -> Result<bool, String> {
        let mut context = Context::default();
        for (name, value) in &variables.0 {
            context.add_variable_from_value(name.clone(), value.clone());
        }
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(truth)) => Ok(truth),
            Ok(_) => Err("it is neither true nor false".to_string()),
            Err(error) => Err(in_a_line(&error.to_string())),
        }
    }
}

fn in_a_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(ERROR_CHARS_MAX).collect()
}

/// Converts a value. Whole numbers become signed ones, as in the API server.
fn convert(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(truth) => cel::Value::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => cel::Value::Int(whole),
            None => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::String(text.clone().into()),
        Value::Array(items) => {
            cel::Value::List(items.iter().map(convert).collect::<Vec<_>>().into())
        }
        Value::Object(fields) => {
            let entry = |(name, value): (&String, &Value)| {
                (Key::String(name.clone().into()), convert(value))
            };
            let entries: HashMap<Key, cel::Value> = fields.iter().map(entry).collect();
            cel::Value::Map(entries.into())
        }
    }
}
