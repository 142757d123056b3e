//! What is known of a command: how to find out that its work is stuck, how to free it, and when it
//! is done. The scripts of a recipe get the command line as `$@`.

use std::time::Duration;

use serde::Deserialize;

use crate::cli::exit::UsageError;
use crate::cli::{file, span};
use crate::proto::v1::ErrorClass;

/// The recipes that are part of the program.
const SHIPPED: [(&str, &str); 3] = [
    ("helm", include_str!("recipes/helm.toml")),
    ("terraform", include_str!("recipes/terraform.toml")),
    ("tofu", include_str!("recipes/terraform.toml")),
];
/// A recipe is small; anything larger is another file.
const BYTES_MAX: usize = 65_536;
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// A recipe.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Repeated work gives the same result.
    pub deterministic: bool,
    /// The table of errors of the command.
    pub system: Option<String>,
    /// Functions that the scripts share.
    pub functions: String,
    /// Its output is stored before the command starts, and given to the other scripts.
    pub checkpoint: Option<Script>,
    /// After an interruption: 0 if the work is stuck by this operation, 1 if it is not stuck.
    pub detect: Option<Script>,
    /// Frees what is stuck.
    pub unlock: Option<Script>,
    /// After the command: 0 if the work is done, 1 if it is not.
    pub done: Option<Script>,
    /// Errors with a class of their own.
    pub errors: Vec<KnownError>,
}

/// A script of the shell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    script: String,
    timeout: Option<String>,
}

/// An error that the recipe knows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownError {
    text: String,
    /// Its class.
    #[serde(deserialize_with = "class")]
    pub class: ErrorClass,
    /// Whether the command may have changed something.
    #[serde(default = "is_touched")]
    pub touched: bool,
}

impl KnownError {
    /// Returns whether one of the lines has the text, in either case.
    pub fn is_in(&self, lines: &[String]) -> bool {
        let text = self.text.to_lowercase();
        lines.iter().any(|line| line.to_lowercase().contains(&text))
    }
}

fn is_touched() -> bool {
    true
}

fn class<'de, D: serde::Deserializer<'de>>(from: D) -> Result<ErrorClass, D::Error> {
    let word = String::deserialize(from)?;
    ErrorClass::from_str_name(&format!("ERROR_CLASS_{word}"))
        .ok_or_else(|| serde::de::Error::custom(format!("`{word}` is no class: write BLOCKED")))
}

impl Recipe {
    /// Returns a recipe by its name, or from a file.
    ///
    /// # Errors
    /// If there is no such recipe, or the file is wrong: with its line.
    pub fn load(name: &str) -> Result<Recipe, UsageError> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Recipe::parse(text).map_err(UsageError);
        }
        let path = std::path::Path::new(name);
        if !path.exists() && !name.contains('/') {
            let text = format!("there is no recipe `{name}`: write helm, terraform, or a file");
            return Err(UsageError(text));
        }
        let bytes = file::read(path)?;
        if BYTES_MAX < bytes.len() {
            return Err(UsageError(format!("{name}: a recipe has at most {BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| "the recipe is not UTF-8".to_string());
        let recipe = text.and_then(|text| Recipe::parse(&text));
        recipe.map_err(|error| UsageError(format!("{name}: {}", error.trim_end())))
    }

    /// Reads a recipe.
    ///
    /// # Errors
    /// A sentence with the line of the mistake.
    pub fn parse(text: &str) -> Result<Recipe, String> {
        let recipe: Recipe = toml::from_str(text).map_err(|error| error.to_string())?;
        let scripts = [&recipe.checkpoint, &recipe.detect, &recipe.unlock, &recipe.done];
        for script in scripts.into_iter().flatten() {
            script.time_max()?;
        }
        if recipe.detect.is_some() != recipe.unlock.is_some() {
            return Err("[detect] and [unlock] belong together".to_string());
        }
        Ok(recipe)
    }

    /// Returns the command that runs a script for a command line.
    pub fn command(&self, script: &Script, command: &[String]) -> Vec<String> {
        let text = format!("{}\n{}", self.functions, script.script);
        let shell = ["sh".to_string(), "-c".to_string(), text, "recipe".to_string()];
        shell.into_iter().chain(command.iter().cloned()).collect()
    }
}

impl Script {
    /// Returns how long it may take.
    ///
    /// # Errors
    /// If the span is none.
    pub fn time_max(&self) -> Result<Duration, String> {
        self.timeout.as_deref().map_or(Ok(TIMEOUT_DEFAULT), span::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipes_of_the_program_are_valid() {
        for (name, _) in SHIPPED {
            let recipe = Recipe::load(name).unwrap();
            assert!(recipe.deterministic && recipe.detect.is_some(), "{name}");
        }
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, expected) in [
            ("detct = 1", "unknown field `detct`"),
            ("[detect]\nscript = \"x\"", "belong together"),
            ("[done]\nscript = \"x\"\ntimeout = \"9\"", "`9` is no span"),
            ("[[errors]]\ntext = \"x\"\nclass = \"BAD\"", "`BAD` is no class"),
            ("[[errors]]\nclass = \"FATAL\"", "missing field `text`"),
        ] {
            let error = Recipe::parse(text).unwrap_err();
            assert!(error.contains(expected), "{expected:?} is not in: {error}");
        }
        assert!(Recipe::load("hlm").unwrap_err().0.contains("there is no recipe `hlm`"));
        assert!(Recipe::load("/nowhere/x").unwrap_err().0.contains("cannot read"));
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large");
        std::fs::write(&large, vec![b'#'; BYTES_MAX + 1]).unwrap();
        assert!(Recipe::load(large.to_str().unwrap()).unwrap_err().0.contains("at most 65536"));
    }

    #[test]
    fn a_script_gets_the_functions_and_the_command_line() {
        let text = "functions = \"f() { echo; }\"\n[done]\nscript = \"f\"\ntimeout = \"5s\"\n";
        let recipe = Recipe::parse(text).unwrap();
        let done = recipe.done.as_ref().unwrap();
        assert_eq!(done.time_max(), Ok(Duration::from_secs(5)));
        let command = recipe.command(done, &["helm".to_string(), "list".to_string()]);
        assert_eq!(command[..2], ["sh", "-c"]);
        assert_eq!(command[2..], ["f() { echo; }\nf", "recipe", "helm", "list"]);
    }
}
