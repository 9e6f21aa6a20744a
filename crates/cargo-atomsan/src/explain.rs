//! `atomsan explain`: what a kind of finding means.

use crate::exit::{Exit, UsageError};
use crate::output::Output;
use atomsan_report::explain;

/// Explain a kind of finding, or list them all
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  atomsan explain lost-update")]
pub(crate) struct Args {
    /// What a finding has in brackets, or its criterion
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = Output::open(None)?;
    let text = match &args.code {
        None => explain::list(),
        Some(code) => match explain::find(code) {
            Some(explanation) => explanation.to_string(),
            None => {
                let hint = match explain::nearest(code) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "`atomsan explain` lists them".to_owned(),
                };
                return Err(UsageError(format!("there is no code `{code}`; {hint}")).into());
            }
        },
    };
    out.write(|out| out.write_all(text.as_bytes()))?;
    Ok(Exit::Clean)
}
