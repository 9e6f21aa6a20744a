//! Settings as the defaults of flags.
//!
//! What a flag accepts is asked of the flag itself, so a setting can never mean anything else.

use crate::engines;
use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

/// A value that a flag does not take.
pub(super) struct Refused {
    /// The part of it that is wrong.
    pub(super) word: String,
    pub(super) message: String,
    /// What it does take, if that is a list.
    pub(super) known: Vec<String>,
}

/// Makes the values the defaults of these flags, wherever a subcommand has them.
pub(super) fn apply(mut command: Command, flags: &[(&'static str, String)]) -> Command {
    for (flag, value) in flags {
        if let Some(id) = find(&command, flag).map(|arg| arg.get_id().clone()) {
            command = command.mut_arg(id, |arg| arg.default_value(value.clone()));
        }
    }
    command.mut_subcommands(|subcommand| apply(subcommand, flags))
}

fn find<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(flag))
}

/// Whether all commands that have a flag accept this value.
pub(super) fn check(flag: &str, value: &str) -> Result<(), Refused> {
    if flag == "engine" {
        return engine(value);
    }
    check_in(&crate::Cli::command(), flag, value)
}

fn check_in(command: &Command, flag: &str, value: &str) -> Result<(), Refused> {
    for subcommand in command.get_subcommands() {
        check_in(subcommand, flag, value)?;
    }
    if let Some(arg) = find(command, flag) {
        let words = match arg.get_value_delimiter() {
            Some(delimiter) => value.split(delimiter).collect(),
            None => vec![value],
        };
        for word in words {
            accepts(arg.get_value_parser(), word)?;
        }
    }
    Ok(())
}

fn engine(value: &str) -> Result<(), Refused> {
    let known = || engines::names().chain(["all"]);
    match value
        .split(',')
        .find(|word| known().all(|name| name != *word))
    {
        None => Ok(()),
        Some(word) => Err(Refused {
            word: word.to_owned(),
            message: format!("there is no engine `{word}`"),
            known: known().map(str::to_owned).collect(),
        }),
    }
}

fn accepts(parser: &ValueParser, word: &str) -> Result<(), Refused> {
    let arg = Arg::new("value")
        .value_parser(parser.clone())
        .action(ArgAction::Set)
        .allow_hyphen_values(true);
    let Err(error) = Command::new("value")
        .no_binary_name(true)
        .arg(arg)
        .try_get_matches_from([word])
    else {
        return Ok(());
    };
    let known: Vec<String> = (parser.possible_values().into_iter().flatten())
        .map(|value| value.get_name().to_owned())
        .collect();
    let message = match (error.kind(), std::error::Error::source(&error)) {
        (ErrorKind::ValueValidation, Some(reason)) => reason.to_string(),
        _ => format!("`{word}` is not a value of this"),
    };
    Err(Refused {
        word: word.to_owned(),
        message,
        known,
    })
}
