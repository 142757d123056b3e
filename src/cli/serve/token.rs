//! `bellwether token`: makes, lists and revokes static tokens in the file that `serve --tokens`
//! reads. A token is shown once; the file has its digest.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use serde_json::json;

use crate::cli::context::{Context, print_plain, say};
use crate::cli::exit::{NotFoundError, UsageError};
use crate::cli::private_file::replace;
use crate::cli::render::time::of_seconds;
use crate::cli::span;
use crate::security::identity::token::{TokenEntry, Tokens};

/// Make, list and revoke static tokens
///
/// It works on the file of `serve --tokens`, on the machine that has it. A running server reads the
/// file again within seconds. The file ends with the table `[end]`, so that a server refuses a part
/// of it and keeps the tokens that it has.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Make a token, and print it once on stdout
    Create {
        /// Name of the token, which roles name as token:ID
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        file: FileArgs,
        /// How long the token is valid; `none` for a token without end
        #[arg(long, value_name = "SPAN", default_value = "90d", value_parser = span_or_none)]
        ttl: Ttl,
    },
    /// List the tokens, without the tokens themselves
    List(FileArgs),
    /// Remove a token; its open streams end within seconds
    ///
    /// Without the last token the file has `revoked_all = true`: the server refuses an empty file.
    Revoke {
        /// Name of the token
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        file: FileArgs,
    },
}

/// The file of the tokens.
#[derive(clap::Args)]
pub struct FileArgs {
    /// The file with the digests; `create` makes it
    #[arg(long, env = "BELLWETHER_TOKENS", value_name = "FILE")]
    tokens: PathBuf,
}

/// How long a token is valid; nothing for a token without end.
#[derive(Debug, Clone, Copy)]
pub struct Ttl(Option<Duration>);

fn span_or_none(text: &str) -> Result<Ttl, String> {
    match text {
        "none" => Ok(Ttl(None)),
        text => span::parse(text).map(|span| Ttl(Some(span))),
    }
}

/// Changes or prints the file.
pub fn run(action: Action, context: &Context) -> anyhow::Result<()> {
    match action {
        Action::Create { id, file, ttl: Ttl(ttl) } => {
            let mut tokens =
                if file.tokens.exists() { read(&file.tokens)? } else { Tokens::default() };
            let made = tokens.create(&id, SystemTime::now(), ttl);
            let text = made.map_err(UsageError)?;
            replace(&file.tokens, &tokens.text())?;
            print_plain(&format!("{text}\n"))?;
            say(&format!("created token {id}; it is shown only now. Grants name it token:{id}"));
        }
        Action::List(file) => list(&read(&file.tokens)?, context)?,
        Action::Revoke { id, file } => {
            let mut tokens = read(&file.tokens)?;
            if !tokens.revoke(&id) {
                let place = file.tokens.display();
                return Err(NotFoundError(format!("there is no token {id} in {place}")).into());
            }
            replace(&file.tokens, &tokens.text())?;
            let was_last = tokens.iter().next().is_none();
            let rest =
                if was_last { "; it was the last one, so they refuse every token" } else { "" };
            say(&format!("revoked token {id}; servers refuse it within seconds{rest}"));
        }
    }
    Ok(())
}

fn list(tokens: &Tokens, context: &Context) -> anyhow::Result<()> {
    let value = |token: &TokenEntry| {
        json!({"id": token.id, "created": of_seconds(token.created),
            "not_after": token.not_after.map(of_seconds)})
    };
    let line = |token: &TokenEntry| {
        let ends = token.not_after.map_or_else(|| "never".to_string(), of_seconds);
        format!("{}  created {}  ends {ends}\n", token.id, of_seconds(token.created))
    };
    let values: Vec<_> = tokens.iter().map(value).collect();
    context.print_value(&values, || print_plain(&tokens.iter().map(line).collect::<String>()))
}

fn read(path: &Path) -> anyhow::Result<Tokens> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("read {}", path.display()))?;
    Tokens::parse(&text).map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))
}
